# SPDX-License-Identifier: Apache-2.0
# A UDP server on some ports: answers what it has received, and says who had sent it, and to whom.
# echo.py NAME PORT...
import select, socket, struct, sys

IP_PKTINFO = 8  # socket has it from Python 3.14 on
poll = select.poll()
sockets = {}
for port in sys.argv[2:]:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
    s.bind(("", int(port)))
    sockets[s.fileno()] = s
    poll.register(s, select.POLLIN)
while True:
    for fd, _ in poll.poll():
        s = sockets[fd]
        try:
            data, control, _, peer = s.recvmsg(2048, 256)
            info = [d for level, kind, d in control if kind == IP_PKTINFO][0]
            to = socket.inet_ntoa(info[8:12])
            text = b"%s: %s:%d to %s:%d" % (sys.argv[1].encode(), peer[0].encode(), peer[1], to.encode(), s.getsockname()[1])
            reply = struct.pack("I4s4s", 0, info[8:12], b"\0" * 4)
            s.sendmsg([text], [(socket.IPPROTO_IP, IP_PKTINFO, reply)], 0, peer)
        except OSError:
            pass  # an ICMP error about an earlier answer
