// SPDX-License-Identifier: Apache-2.0

// Trace of a hypothetical packet: it is described in words, or taken from a capture file. The client reads the file,
// because the daemon opens no files of users.

package cli

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/polycube/polycube/internal/cli/output"
)

// inject sends the packet to the daemon and shows the steps.
func (s *session) inject(w watchCommand) error {
	packet, err := packetOf(w.packet)
	if err != nil {
		return w.wrong("%v", err)
	}
	body := []output.Member{{Key: "place", Val: output.StringValue(w.words[0])}, {Key: "packet", Val: output.StringValue(packet)}}
	if w.egress {
		body = append(body, output.Member{Key: "direction", Val: output.StringValue("egress")})
	}
	c, err := s.connect()
	if err != nil {
		return err
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(context.Background(), s.config.timeout)
	defer cancel()
	s.sent = request{method: "POST", path: []string{"trace", "inject"}, body: output.ObjectValue(body...).AppendJSON(nil)}
	a, err := c.do(ctx, s.sent)
	if err != nil {
		return err
	}
	if s.status = a.status; !a.ok() {
		return &serverError{sentences(a)}
	}
	if w.json {
		return output.Print(s.stdout, a.body, output.Options{Form: output.FormJSON}, false)
	}
	var steps []step
	if err := json.Unmarshal(a.body, &steps); err != nil {
		return fmt.Errorf("cannot parse the daemon's response: %w", err)
	}
	for _, one := range steps {
		if err := s.put(one.untimed()); err != nil {
			return err
		}
	}
	return nil
}

// packetOf is the description of a packet. @FILE is the first packet of a capture file, @FILE:N
// the N-th.
func packetOf(text string) (string, error) {
	name, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		return text, nil
	}
	n := 1
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		if number, err := strconv.Atoi(name[i+1:]); err == nil && number > 0 {
			name, n = name[:i], number
		}
	}
	file, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("open the packet file: %w", err)
	}
	defer file.Close()
	data, err := nthPacket(file, n)
	if err != nil {
		return "", fmt.Errorf("%s, packet %d: %w", name, n, err)
	}
	return hex.EncodeToString(data), nil
}

// nthPacket reads a packet from a pcap or pcapng file.
func nthPacket(file io.Reader, n int) ([]byte, error) {
	in := bufio.NewReader(file)
	magic, err := in.Peek(4)
	if err != nil {
		return nil, errors.New("not a capture file")
	}
	var source gopacket.PacketDataSource
	if string(magic) == "\x0a\x0d\x0d\x0a" {
		source, err = pcapgo.NewNgReader(in, pcapgo.DefaultNgReaderOptions)
	} else {
		source, err = pcapgo.NewReader(in)
	}
	for i := 1; err == nil; i++ {
		var data []byte
		if data, _, err = source.ReadPacketData(); err == nil && i == n {
			return data, nil
		}
	}
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file has fewer packets")
	}
	return nil, fmt.Errorf("read the file: %w", err)
}
