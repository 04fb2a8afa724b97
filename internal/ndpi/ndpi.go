// SPDX-License-Identifier: Apache-2.0

// Package ndpi calls libndpi, which recognises the application of a flow from its first packets. It is linked dynamically
// (LGPL), and only program polycube-ndpi uses it: packets from outside reach a C library here.
package ndpi

/*
#cgo pkg-config: libndpi
#include <stdlib.h>
#include <string.h>
#include <ndpi_api.h>

struct answer {
	uint16_t protocol, master, category;
	uint8_t guessed, more;
	uint64_t risks;
};

static struct ndpi_detection_module_struct *module_new(const char *protocols, const char *categories, int *wrong)
{
	struct ndpi_detection_module_struct *m = ndpi_init_detection_module(ndpi_no_prefs);
	NDPI_PROTOCOL_BITMASK all;

	*wrong = 0;
	if (!m)
		return NULL;
	NDPI_BITMASK_SET_ALL(all);
	ndpi_set_protocol_detection_bitmask2(m, &all);
	if (protocols && ndpi_load_protocols_file(m, protocols) < 0)
		*wrong = 1;
	if (categories && ndpi_load_categories_file(m, categories) < 0)
		*wrong = 2;
	ndpi_finalize_initialization(m);
	return m;
}

static struct ndpi_flow_struct *flow_new(void)
{
	struct ndpi_flow_struct *f = ndpi_flow_malloc(ndpi_detection_get_sizeof_ndpi_flow_struct());

	if (f)
		memset(f, 0, ndpi_detection_get_sizeof_ndpi_flow_struct());
	return f;
}

static void answer_of(struct ndpi_detection_module_struct *m, struct ndpi_flow_struct *f, ndpi_protocol p, struct answer *a)
{
	a->protocol = p.app_protocol ? p.app_protocol : p.master_protocol;
	a->master = p.app_protocol && p.app_protocol != p.master_protocol ? p.master_protocol : 0;
	a->category = p.category;
	a->guessed = a->protocol && f->confidence < NDPI_CONFIDENCE_DPI_CACHE;
	a->risks = f->risk;
	a->more = !a->protocol || ndpi_extra_dissection_possible(m, f);
}

static void packet(struct ndpi_detection_module_struct *m, struct ndpi_flow_struct *f, const unsigned char *ip, uint16_t length,
		   uint64_t ms, struct answer *a)
{
	answer_of(m, f, ndpi_detection_process_packet(m, f, ip, length, ms), a);
}

static void give_up(struct ndpi_detection_module_struct *m, struct ndpi_flow_struct *f, struct answer *a)
{
	uint8_t guessed = 0;

	answer_of(m, f, ndpi_detection_giveup(m, f, 1, &guessed), a);
	a->more = 0;
}

static const char *host_of(struct ndpi_flow_struct *f) { return f->host_server_name; }

static const char *ja3_of(struct ndpi_flow_struct *f, const struct answer *a)
{
	int tls = a->protocol == NDPI_PROTOCOL_TLS || a->master == NDPI_PROTOCOL_TLS || a->protocol == NDPI_PROTOCOL_QUIC ||
		  a->master == NDPI_PROTOCOL_QUIC;

	return tls ? f->protos.tls_quic.ja3_client : "";
}
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/polycube/polycube/dpi"
)

// Module recognises protocols. One goroutine at a time uses it and its flows.
type Module struct {
	m *C.struct_ndpi_detection_module_struct
	// packet is memory of C: a library from outside gets no memory of Go.
	packet *[MaxPacket]byte
}

// MaxPacket is how much of an IP packet is looked at.
const MaxPacket = 4096

// Flow is the state of a flow until it is recognised. Free it.
type Flow struct {
	f    *C.struct_ndpi_flow_struct
	last C.struct_answer
}

// Answer is what is known of a flow.
type Answer struct {
	dpi.Class
	// More says that further packets may tell more.
	More bool
}

// New returns a module. The files are in the formats of nDPI; empty for none.
func New(protocols, categories string) (*Module, error) {
	text := func(s string) *C.char {
		if s == "" {
			return nil
		}
		return C.CString(s)
	}
	p, c := text(protocols), text(categories)
	defer C.free(unsafe.Pointer(p))
	defer C.free(unsafe.Pointer(c))
	var wrong C.int
	m := C.module_new(p, c, &wrong)
	if m == nil {
		return nil, errors.New("libndpi: no memory for a module")
	}
	n := &Module{m: m, packet: (*[MaxPacket]byte)(C.malloc(MaxPacket))}
	switch wrong {
	case 1:
		n.Close()
		return nil, fmt.Errorf("protocol file %s: libndpi refuses it", protocols)
	case 2:
		n.Close()
		return nil, fmt.Errorf("category file %s: libndpi refuses it", categories)
	}
	return n, nil
}

// Close frees the module. Free its flows before.
func (n *Module) Close() {
	C.ndpi_exit_detection_module(n.m)
	C.free(unsafe.Pointer(n.packet))
}

// Version is that of the library in use.
func Version() string { return C.GoString(C.ndpi_revision()) }

// Names returns the names of protocols and categories, by the rows of package dpi.
func (n *Module) Names() *[dpi.Rows]dpi.Name {
	var names [dpi.Rows]dpi.Name
	for id := range min(int(C.ndpi_get_num_supported_protocols(n.m)), dpi.LastProtocol+1) {
		names[id] = dpi.NameOf(clean(C.GoString(C.ndpi_get_proto_name(n.m, C.uint16_t(id)))))
	}
	for id := range min(int(C.NDPI_PROTOCOL_NUM_CATEGORIES), dpi.Categories) {
		names[dpi.Protocols+id] = dpi.NameOf(clean(C.GoString(C.ndpi_category_get_name(n.m, C.ndpi_protocol_category_t(id)))))
	}
	return &names
}

// Risk is the name of a bit of Class.Risks.
func Risk(bit int) string { return clean(C.GoString(C.ndpi_risk2str(C.ndpi_risk_enum(bit)))) }

// clean keeps what can be printed: names and what is read from packets go to terminals and logs.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
}

// NewFlow returns a flow without packets, nil if there is no memory.
func (n *Module) NewFlow() *Flow {
	f := C.flow_new()
	if f == nil {
		return nil
	}
	return &Flow{f: f}
}

// Free frees a flow.
func (f *Flow) Free() { C.ndpi_free_flow(f.f) }

// Packet looks at an IP packet, of which only the first bytes may be there: then it is looked at as a shorter one. At is when
// it came.
func (n *Module) Packet(f *Flow, ip []byte, at time.Duration) Answer {
	length := copy(n.packet[:], ip)
	fit(n.packet[:length])
	C.packet(n.m, f.f, (*C.uchar)(unsafe.Pointer(n.packet)), C.uint16_t(length), C.uint64_t(at.Milliseconds()), &f.last)
	return f.answer()
}

// GiveUp returns what can be said of a flow without more packets, by ports or addresses if nothing else.
func (n *Module) GiveUp(f *Flow) Answer {
	C.give_up(n.m, f.f, &f.last)
	return f.answer()
}

func (f *Flow) answer() Answer {
	a := Answer{Class: dpi.Class{
		Protocol: uint16(f.last.protocol), Master: uint16(f.last.master), Category: uint16(f.last.category), Risks: uint64(f.last.risks),
	}, More: f.last.more != 0}
	if f.last.guessed != 0 {
		a.Flags = uint16(dpi.Guessed)
	}
	return a
}

// Host is the name of the server that the flow asked for, or "".
func (f *Flow) Host() string { return clean(C.GoString(C.host_of(f.f))) }

// JA3 is the fingerprint of the client's TLS, or "".
func (f *Flow) JA3() string { return clean(C.GoString(C.ja3_of(f.f, &f.last))) }

// fit makes the length in an IP header that of the bytes that are there.
func fit(ip []byte) {
	put := func(at, length int) { ip[at], ip[at+1] = byte(length>>8), byte(length) }
	switch {
	case len(ip) >= 20 && ip[0]>>4 == 4:
		if length := int(ip[2])<<8 | int(ip[3]); length > len(ip) || length == 0 {
			put(2, len(ip))
		}
	case len(ip) >= 40 && ip[0]>>4 == 6:
		if length := int(ip[4])<<8 | int(ip[5]); length > len(ip)-40 || length == 0 {
			put(4, len(ip)-40)
		}
	}
}
