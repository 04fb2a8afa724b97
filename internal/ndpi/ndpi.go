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
	uint8_t guessed, more, named, fingerprinted;
	uint64_t risks;
};

struct flow {
	struct ndpi_flow_struct *state;
	uint64_t done; // it needs no more packets
	struct answer last;
};

// A packet that waits.
struct job {
	struct flow *flow;
	uint64_t ms;
	uint32_t at, length; // in the memory of packets
	uint32_t final; // the flow is given up after it
	uint32_t skipped; // the flow was done before
	struct answer answer;
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

static struct flow *flow_new(void)
{
	struct flow *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->state = ndpi_flow_malloc(ndpi_detection_get_sizeof_ndpi_flow_struct());
	if (!f->state) {
		free(f);
		return NULL;
	}
	memset(f->state, 0, ndpi_detection_get_sizeof_ndpi_flow_struct());
	return f;
}

static void flow_free(struct flow *f)
{
	ndpi_free_flow(f->state);
	free(f);
}

static const char *host_of(const struct flow *f) { return f->state->host_server_name; }

static const char *ja3_of(const struct flow *f)
{
	const struct answer *a = &f->last;
	int tls = a->protocol == NDPI_PROTOCOL_TLS || a->master == NDPI_PROTOCOL_TLS || a->protocol == NDPI_PROTOCOL_QUIC ||
		  a->master == NDPI_PROTOCOL_QUIC;

	return tls ? f->state->protos.tls_quic.ja3_client : "";
}

static void take_answer(struct ndpi_detection_module_struct *m, struct flow *f, ndpi_protocol p)
{
	struct answer *a = &f->last;

	a->protocol = p.app_protocol ? p.app_protocol : p.master_protocol;
	a->master = p.app_protocol && p.app_protocol != p.master_protocol ? p.master_protocol : 0;
	a->category = p.category;
	a->guessed = a->protocol && f->state->confidence < NDPI_CONFIDENCE_DPI_CACHE;
	a->risks = f->state->risk;
	a->more = !a->protocol || ndpi_extra_dissection_possible(m, f->state);
	a->named = *host_of(f) != 0;
	a->fingerprinted = *ja3_of(f) != 0;
}

static void give_up(struct ndpi_detection_module_struct *m, struct flow *f)
{
	uint8_t guessed = 0;

	take_answer(m, f, ndpi_detection_giveup(m, f->state, 1, &guessed));
	f->last.more = 0;
}

static void inspect(struct ndpi_detection_module_struct *m, struct job *j, int n, const unsigned char *packets)
{
	for (; n > 0; n--, j++) {
		struct flow *f = j->flow;

		j->skipped = f->done;
		if (f->done)
			continue;
		take_answer(m, f, ndpi_detection_process_packet(m, f->state, packets + j->at, j->length, j->ms));
		if (f->last.more && j->final)
			give_up(m, f);
		f->done = !f->last.more;
		j->answer = f->last;
	}
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
	// jobs and packets are those that wait, in memory of C: a library from outside gets no memory of Go.
	jobs    *[MaxBatch]C.struct_job
	packets *[batchBytes]byte
	n, used int
}

const (
	// MaxPacket is how much of an IP packet is looked at.
	MaxPacket = 4096
	// MaxBatch is how many packets wait at most.
	MaxBatch   = 64
	batchBytes = 32 * MaxPacket
)

// Flow is the state of a flow until it is recognised. Free it.
type Flow C.struct_flow

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
	n := &Module{m: m, jobs: (*[MaxBatch]C.struct_job)(C.calloc(MaxBatch, C.sizeof_struct_job)), packets: (*[batchBytes]byte)(C.malloc(batchBytes))}
	if n.jobs == nil { // unlike malloc, calloc returns
		n.Close()
		return nil, errors.New("libndpi: no memory for packets")
	}
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
	C.free(unsafe.Pointer(n.jobs))
	C.free(unsafe.Pointer(n.packets))
}

// Version is that of the library in use.
func Version() string { return C.GoString(C.ndpi_revision()) }

// Names returns the names of protocols, categories and risks, by the rows of package dpi.
func (n *Module) Names() *[dpi.Names]dpi.Name {
	var names [dpi.Names]dpi.Name
	for id := range min(int(C.ndpi_get_num_supported_protocols(n.m)), dpi.LastProtocol+1) {
		names[id] = dpi.NameOf(clean(C.GoString(C.ndpi_get_proto_name(n.m, C.uint16_t(id)))))
	}
	for id := range min(int(C.NDPI_PROTOCOL_NUM_CATEGORIES), dpi.Categories) {
		names[dpi.Protocols+id] = dpi.NameOf(clean(C.GoString(C.ndpi_category_get_name(n.m, C.ndpi_protocol_category_t(id)))))
	}
	for bit := range min(int(C.NDPI_MAX_RISK), dpi.Risks) {
		names[dpi.Rows+bit] = dpi.NameOf(Risk(bit))
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
func (n *Module) NewFlow() *Flow { return (*Flow)(C.flow_new()) }

func (f *Flow) c() *C.struct_flow { return (*C.struct_flow)(f) }

// Free frees a flow, of which no packet waits.
func (f *Flow) Free() { C.flow_free(f.c()) }

// Queue has an IP packet wait for Inspect, of which only the first bytes may be there: then it is looked at as a shorter one. At is
// when it came. If it is the final one, the flow is given up after it. False: too many packets wait.
func (n *Module) Queue(f *Flow, ip []byte, at time.Duration, final bool) bool {
	if n.n == MaxBatch || n.used+MaxPacket > batchBytes {
		return false
	}
	buf := n.packets[n.used : n.used+MaxPacket]
	length := copy(buf, ip)
	fit(buf[:length])
	j := &n.jobs[n.n]
	j.flow, j.ms, j.at, j.length, j.final = f.c(), C.uint64_t(at.Milliseconds()), C.uint32_t(n.used), C.uint32_t(length), 0
	if final {
		j.final = 1
	}
	n.n++
	n.used += (length + 63) &^ 63 // a line of the cache
	return true
}

// Inspect looks at the packets that wait, in order, and returns their number. Answer has what nDPI says after each of them.
func (n *Module) Inspect() int {
	done := n.n
	if done > 0 {
		C.inspect(n.m, &n.jobs[0], C.int(done), (*C.uchar)(unsafe.Pointer(n.packets)))
	}
	n.n, n.used = 0, 0
	return done
}

// Answer is what nDPI said after a packet of the last Inspect; false if the flow did not need it.
func (n *Module) Answer(i int) (Answer, bool) {
	j := &n.jobs[i]
	return answerOf(&j.answer), j.skipped == 0
}

// Packet looks at a packet at once. None waits.
func (n *Module) Packet(f *Flow, ip []byte, at time.Duration) Answer {
	n.Queue(f, ip, at, false)
	n.Inspect()
	return answerOf(&f.last)
}

// GiveUp returns what can be said of a flow without more packets, by ports or addresses if nothing else.
func (n *Module) GiveUp(f *Flow) Answer {
	C.give_up(n.m, f.c())
	return answerOf(&f.last)
}

func answerOf(is *C.struct_answer) Answer {
	a := Answer{Class: dpi.Class{
		Protocol: uint16(is.protocol), Master: uint16(is.master), Category: uint16(is.category), Risks: uint64(is.risks),
	}, More: is.more != 0}
	if is.guessed != 0 {
		a.Flags = uint16(dpi.Guessed)
	}
	return a
}

// Host is the name of the server that the flow asked for, or "".
func (f *Flow) Host() string {
	if f.last.named == 0 {
		return ""
	}
	return clean(C.GoString(C.host_of(f.c())))
}

// JA3 is the fingerprint of the client's TLS, or "".
func (f *Flow) JA3() string {
	if f.last.fingerprinted == 0 {
		return ""
	}
	return clean(C.GoString(C.ja3_of(f.c())))
}

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
