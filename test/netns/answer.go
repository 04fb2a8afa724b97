// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
)

// AnswerLines listens for TCP and answers each line with what answer returns for it and its sender, until the test ends.
// Lines are without their ends. With a configuration, the connections are TLS.
func (n *Namespace) AnswerLines(address string, answer func(from net.Addr, line string) string, secure ...*tls.Config) {
	n.t.Helper()
	var l net.Listener
	n.Must(func() (err error) { l, err = net.Listen("tcp", address); return err })
	for _, config := range secure {
		l = tls.NewListener(l, config)
	}
	var all []net.Conn
	var working sync.WaitGroup
	ended := make(chan struct{})
	n.t.Cleanup(func() {
		_ = l.Close()
		<-ended
		for _, c := range all {
			_ = c.Close()
		}
		working.Wait()
	})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all = append(all, c)
			working.Go(func() {
				for lines := bufio.NewScanner(c); lines.Scan(); {
					if _, err := fmt.Fprintln(c, answer(c.RemoteAddr(), lines.Text())); err != nil {
						return
					}
				}
			})
		}
	}()
}
