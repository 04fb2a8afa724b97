# SPDX-License-Identifier: Apache-2.0
# Sends UDP datagrams, each from a port of its own, and prints what is answered.
# probe.py SECONDS SOURCE-PORT:DESTINATION:PORT...
import errno, select, socket, sys, time

waiting, answers = {}, {}
for word in sys.argv[2:]:
    sport, to, port = word.split(":")
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", int(sport)))
    s.setblocking(False)
    s.connect((to, int(port)))
    waiting[s] = word
end = time.monotonic() + float(sys.argv[1])
while waiting and time.monotonic() < end:
    for s in list(waiting):
        try:
            s.send(b"?")
        except OSError:
            pass  # an ICMP error, which is read below
    again = time.monotonic() + 0.3
    while waiting and time.monotonic() < again:
        for s in select.select(list(waiting), [], [], 0.1)[0]:
            try:
                answers[waiting[s]] = s.recv(2048).decode()
            except OSError as e:
                if e.errno == errno.EAGAIN:
                    continue
                answers[waiting[s]] = errno.errorcode[e.errno]
            del waiting[s]
for word in sys.argv[2:]:
    print(word, answers.get(word, "no answer"))
