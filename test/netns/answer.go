// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"bufio"
	"fmt"
	"net"
	"sync"
)

// AnswerLines listens for TCP and answers each line with what answer returns for it and its sender, until the test ends.
// Lines are without their ends.
func (n *Namespace) AnswerLines(address string, answer func(from net.Addr, line string) string) {
	n.t.Helper()
	var l net.Listener
	n.Must(func() (err error) { l, err = net.Listen("tcp", address); return err })
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
