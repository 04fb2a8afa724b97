// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"crypto/tls"
	"encoding/hex"
	"strings"
	"testing"
)

// unhex reads bytes; spaces are for the reader.
func unhex(text string) string {
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		panic(err) // a mistake in this file
	}
	return string(b)
}

// dnsName is a name on the wire.
func dnsName(name string) string {
	var b strings.Builder
	for _, label := range strings.Split(name, ".") {
		b.WriteByte(byte(len(label)))
		b.WriteString(label)
	}
	return b.String() + "\x00"
}

func dnsQuery(name string) string {
	return unhex("1234 0100 0001 0000 0000 0000") + dnsName(name) + unhex("0001 0001")
}

func dnsAnswer(name string) string {
	return unhex("1234 8180 0001 0001 0000 0000") + dnsName(name) + unhex("0001 0001 c00c 0001 0001 0000003c 0004 c6336401")
}

func get(host, agent string) string {
	return "GET /index.html HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: " + agent + "\r\nAccept: */*\r\n\r\n"
}

const page = "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>"

// dhcp is a message of BOOTP with options.
func dhcp(op, kind string) string {
	return unhex(op+"010600 3903f326 0000 0000 00000000 00000000 00000000 00000000 020000000001") + strings.Repeat("\x00", 10+64+128) +
		unhex("63825363 3501"+kind+" 0c04 686f7374 3703 010306 ff")
}

// talks are conversations of many protocols.
func talks(t testing.TB) []talk {
	all := append(webTalks(t), textTalks()...)
	return append(append(all, binaryTalks()...), otherTalks()...)
}

func webTalks(t testing.TB) []talk {
	return []talk{
		{name: "http", protocol: tcp, port: 80, messages: []string{"c" + get("www.example.com", "curl/7.88.1"), "s" + page}},
		{name: "http6", protocol: tcp, port: 80, six: true, messages: []string{"c" + get("www.example.com", "curl/7.88.1"), "s" + page}},
		{name: "http-vlan", protocol: tcp, port: 80, vlan: 7, messages: []string{"c" + get("www.example.org", "curl/7.88.1"), "s" + page}},
		{name: "http-port", protocol: tcp, port: 8123, messages: []string{"c" + get("www.example.com", "Mozilla/5.0"), "s" + page}},
		{name: "http-wikipedia", protocol: tcp, port: 80, messages: []string{"c" + get("en.wikipedia.org", "Mozilla/5.0"), "s" + page}},
		{name: "tls12", protocol: tcp, port: 443, messages: handshake(t, "www.example.com", tls.VersionTLS12)},
		{name: "tls13", protocol: tcp, port: 443, messages: handshake(t, "www.example.com", tls.VersionTLS13)},
		{name: "youtube", protocol: tcp, port: 443, messages: handshake(t, "www.youtube.com", tls.VersionTLS13)},
		{name: "netflix", protocol: tcp, port: 443, messages: handshake(t, "www.netflix.com", tls.VersionTLS12)},
		{name: "facebook6", protocol: tcp, port: 443, six: true, messages: handshake(t, "www.facebook.com", tls.VersionTLS13)},
		{name: "whatsapp", protocol: tcp, port: 443, messages: handshake(t, "web.whatsapp.com", tls.VersionTLS13)},
		{name: "two segments", protocol: tcp, port: 443, cut: 90, messages: handshake(t, "www.youtube.com", tls.VersionTLS12)},
		{name: "github", protocol: tcp, port: 443, messages: handshake(t, "github.com", tls.VersionTLS13)},
		{name: "spotify", protocol: tcp, port: 443, messages: handshake(t, "api.spotify.com", tls.VersionTLS13)},
		{name: "telegram", protocol: tcp, port: 443, messages: handshake(t, "web.telegram.org", tls.VersionTLS12)},
	}
}

func textTalks() []talk {
	return []talk{
		{name: "ssh", protocol: tcp, port: 22, messages: []string{"sSSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "cSSH-2.0-OpenSSH_9.3\r\n"}},
		{name: "ssh6", protocol: tcp, port: 2222, six: true, messages: []string{"sSSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "cSSH-2.0-OpenSSH_9.3\r\n"}},
		{name: "smtp", protocol: tcp, port: 25, messages: []string{"s220 mail.example.com ESMTP Postfix\r\n", "cEHLO client.example.com\r\n",
			"s250-mail.example.com\r\n250-SIZE 10240000\r\n250 HELP\r\n", "cMAIL FROM:<a@example.com>\r\n", "s250 2.1.0 Ok\r\n", "cRCPT TO:<b@example.com>\r\n", "s250 2.1.5 Ok\r\n", "cDATA\r\n"}},
		{name: "pop3", protocol: tcp, port: 110, messages: []string{"s+OK POP3 server ready\r\n", "cUSER me\r\n", "s+OK\r\n", "cPASS secret\r\n", "s+OK logged in\r\n", "cSTAT\r\n", "s+OK 2 320\r\n"}},
		{name: "imap", protocol: tcp, port: 143, messages: []string{"s* OK IMAP4rev1 ready\r\n", "ca001 CAPABILITY\r\n", "s* CAPABILITY IMAP4rev1\r\na001 OK done\r\n", "ca002 LOGIN me secret\r\n", "sa002 OK LOGIN\r\n"}},
		{name: "ftp", protocol: tcp, port: 21, messages: []string{"s220 (vsFTPd 3.0.3)\r\n", "cUSER anonymous\r\n", "s331 Please specify the password.\r\n", "cPASS x\r\n", "s230 Login successful.\r\n", "cSYST\r\n", "s215 UNIX Type: L8\r\n"}},
		{name: "irc", protocol: tcp, port: 6667, messages: []string{"cNICK me\r\nUSER me 0 * :me\r\n", "s:irc.example.com 001 me :Welcome\r\n", "cJOIN #polycube\r\n", "s:me JOIN #polycube\r\n", "cPRIVMSG #polycube :hello\r\n"}},
		{name: "redis", protocol: tcp, port: 6379, messages: []string{"c*1\r\n$4\r\nPING\r\n", "s+PONG\r\n", "c*2\r\n$3\r\nGET\r\n$1\r\na\r\n", "s$1\r\nb\r\n"}},
		{name: "memcached", protocol: tcp, port: 11211, messages: []string{"cget key\r\n", "sEND\r\n", "cstats\r\n", "sSTAT pid 1\r\nEND\r\n"}},
		{name: "telnet", protocol: tcp, port: 23, messages: []string{"s" + unhex("fffd18 fffd20 fffd23 fffd27"), "c" + unhex("fffb18 fffc20 fffc23 fffb27"), "slogin: ", "cme\r\n"}},
		{name: "vnc", protocol: tcp, port: 5900, messages: []string{"sRFB 003.008\n", "cRFB 003.008\n"}},
		{name: "rtsp", protocol: tcp, port: 554, messages: []string{"cOPTIONS rtsp://cam.example.com/1 RTSP/1.0\r\nCSeq: 1\r\n\r\n", "sRTSP/1.0 200 OK\r\nCSeq: 1\r\nPublic: DESCRIBE\r\n\r\n"}},
		{name: "git", protocol: tcp, port: 9418, messages: []string{"c0032git-upload-pack /project.git\x00host=example.com\x00"}},
		{name: "whois", protocol: tcp, port: 43, messages: []string{"cexample.com\r\n", "sDomain Name: EXAMPLE.COM\r\n"}},
		{name: "xmpp", protocol: tcp, port: 5222, messages: []string{"c<?xml version='1.0'?><stream:stream to='example.com' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>",
			"s<?xml version='1.0'?><stream:stream from='example.com' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>"}},
		{name: "sip", protocol: udp, port: 5060, messages: []string{"cREGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.1\r\nFrom: <sip:a@example.com>\r\nTo: <sip:a@example.com>\r\nCall-ID: 1\r\nCSeq: 1 REGISTER\r\nContent-Length: 0\r\n\r\n",
			"sSIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 10.0.0.1\r\nCSeq: 1 REGISTER\r\nContent-Length: 0\r\n\r\n"}},
		{name: "sip6", protocol: udp, port: 5060, six: true, messages: []string{"cOPTIONS sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP [2001:db8::1]\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"}},
		{name: "sip in fragments", protocol: udp, port: 5060, cut: 400, messages: []string{"cINVITE sip:b@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.1\r\nSubject: " + strings.Repeat("long ", 200) + "\r\n\r\n"}},
		{name: "ssdp", protocol: udp, port: 1900, messages: []string{"cM-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nMAN: \"ssdp:discover\"\r\nMX: 1\r\nST: ssdp:all\r\n\r\n"}},
		{name: "syslog", protocol: udp, port: 514, messages: []string{"c<34>Oct 11 22:14:15 host su: 'su root' failed for me on /dev/pts/8"}},
	}
}

func binaryTalks() []talk {
	return []talk{
		{name: "mysql", protocol: tcp, port: 3306, messages: []string{"s" + unhex("4a000000 0a") + "8.0.32\x00" + unhex("08000000 3a2b1c4d5e6f7081 00 fff7 08 0200 0f80 15 00000000000000000000") + "abcdefghijkl\x00mysql_native_password\x00",
			"c" + unhex("20000001 85a67f00 00000001 08") + strings.Repeat("\x00", 23)}},
		{name: "postgres", protocol: tcp, port: 5432, messages: []string{"c" + unhex("00000008 04d2162f"), "sN", "c" + unhex("00000027 00030000") + "user\x00me\x00database\x00me\x00application\x00\x00", "s" + unhex("52000000 08 00000000")}},
		{name: "mqtt", protocol: tcp, port: 1883, messages: []string{"c" + unhex("1010 0004 4d515454 04 02 003c 0004 74657374"), "s" + unhex("2002 0000"), "c" + unhex("8206 0001 0001 61 00"), "s" + unhex("9003 0001 00")}},
		{name: "bittorrent", protocol: tcp, port: 6881, messages: []string{"c\x13BitTorrent protocol" + strings.Repeat("\x00", 8) + strings.Repeat("a", 40), "s\x13BitTorrent protocol" + strings.Repeat("\x00", 8) + strings.Repeat("b", 40)}},
		{name: "rdp", protocol: tcp, port: 3389, messages: []string{"c" + unhex("03000013 0e e00000000000 0100 0800 03000000"), "s" + unhex("03000013 0e d00000123400 0200 0800 02000000")}},
		{name: "bgp", protocol: tcp, port: 179, messages: []string{"c" + strings.Repeat("\xff", 16) + unhex("001d 01 04 fde8 00b4 0a000001 00"), "s" + strings.Repeat("\xff", 16) + unhex("001d 01 04 fde9 00b4 0a000002 00"), "c" + strings.Repeat("\xff", 16) + unhex("0013 04")}},
		{name: "ldap", protocol: tcp, port: 389, messages: []string{"c" + unhex("300c 020101 6007 020103 0400 8000"), "s" + unhex("300c 020101 6107 0a0100 0400 0400")}},
		{name: "smb", protocol: tcp, port: 445, messages: []string{"c" + unhex("00000044 fe534d42 4000 0000 00000000 0000 1f00 00000000 00000000") + strings.Repeat("\x00", 44), "s" + unhex("00000044 fe534d42 4000 0000 00000000 0000 0100 01000000 00000000") + strings.Repeat("\x00", 44)}},
		{name: "modbus", protocol: tcp, port: 502, messages: []string{"c" + unhex("0001 0000 0006 01 03 0000 000a"), "s" + unhex("0001 0000 0017 01 03 14") + strings.Repeat("\x00", 20)}},
		{name: "dns", protocol: udp, port: 53, messages: []string{"c" + dnsQuery("www.example.com"), "s" + dnsAnswer("www.example.com")}},
		{name: "dns6", protocol: udp, port: 53, six: true, messages: []string{"c" + dnsQuery("www.example.net"), "s" + dnsAnswer("www.example.net")}},
		{name: "dns-vlan", protocol: udp, port: 53, vlan: 99, messages: []string{"c" + dnsQuery("www.google.com"), "s" + dnsAnswer("www.google.com")}},
		{name: "mdns", protocol: udp, port: 5353, messages: []string{"c" + unhex("0000 0000 0001 0000 0000 0000") + dnsName("_http._tcp.local") + unhex("000c 0001")}},
		{name: "ntp", protocol: udp, port: 123, messages: []string{"c\x23" + strings.Repeat("\x00", 47), "s\x24" + strings.Repeat("\x01", 47)}},
		{name: "dhcp", protocol: udp, port: 67, messages: []string{"c" + dhcp("01", "01"), "s" + dhcp("02", "02")}},
		{name: "snmp", protocol: udp, port: 161, messages: []string{"c" + unhex("3029 020101 0406 7075626c6963 a01c 0204 12345678 020100 020100 300e 300c 0608 2b06010201010100 0500"),
			"s" + unhex("302c 020101 0406 7075626c6963 a21f 0204 12345678 020100 020100 3011 300f 0608 2b06010201010100 0403 616263")}},
		{name: "tftp", protocol: udp, port: 69, messages: []string{"c\x00\x01boot.img\x00octet\x00"}},
		{name: "stun", protocol: udp, port: 3478, messages: []string{"c" + unhex("0001 0000 2112a442 0102030405060708090a0b0c"), "s" + unhex("0101 000c 2112a442 0102030405060708090a0b0c 0020 0008 0001 1234 5678 9abc")}},
		{name: "radius", protocol: udp, port: 1812, messages: []string{"c" + unhex("01 01 0026") + strings.Repeat("\x07", 16) + unhex("0104 6d65 0212") + strings.Repeat("\x08", 12), "s" + unhex("02 01 0014") + strings.Repeat("\x09", 16)}},
		{name: "coap", protocol: udp, port: 5683, messages: []string{"c" + unhex("40 01 1234 bb 2e77656c6c2d6b6e6f776e 04 636f7265"), "s" + unhex("60 45 1234 c1 28 ff") + "</a>"}},
		{name: "netflow", protocol: udp, port: 2055, messages: []string{"c" + unhex("0005 0001 00001000 65000000 00000000 00000001 00 00 0000") + strings.Repeat("\x01", 48)}},
		{name: "wireguard", protocol: udp, port: 51820, messages: []string{"c" + unhex("01000000 12345678") + strings.Repeat("\x5a", 140), "s" + unhex("02000000 87654321 12345678") + strings.Repeat("\x5b", 80)}},
		{name: "openvpn", protocol: udp, port: 1194, messages: []string{"c" + unhex("38 0102030405060708 00 00000000"), "s" + unhex("40 1112131415161718 01 00000000 0102030405060708 00000000"), "c" + unhex("28 0102030405060708 01 00000000 1112131415161718")}},
		{name: "netbios", protocol: udp, port: 137, messages: []string{"c" + unhex("1234 0110 0001 0000 0000 0000") + " CKAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\x00" + unhex("0021 0001")}},
		{name: "gtp", protocol: udp, port: 2152, messages: []string{"c" + unhex("32 01 0004 00000000 0001 0000"), "s" + unhex("32 02 0006 00000000 0001 0000 0e00")}},
		{name: "kerberos", protocol: tcp, port: 88, messages: []string{"c" + unhex("00000040 6a3e 303c a103 0201 05 a203 0201 0a") + strings.Repeat("\x30", 51)}},
	}
}

func otherTalks() []talk {
	return []talk{
		{name: "ping", protocol: 1, messages: []string{"c" + unhex("0800 0000 0001 0001") + "abcdefgh", "s" + unhex("0000 0000 0001 0001") + "abcdefgh"}},
		{name: "ping6", protocol: 58, six: true, messages: []string{"c" + unhex("8000 0000 0001 0001") + "abcdefgh", "s" + unhex("8100 0000 0001 0001") + "abcdefgh"}},
		{name: "esp", protocol: 50, messages: []string{"c" + unhex("00001000 00000001") + strings.Repeat("\x11", 40)}},
		{name: "ospf", protocol: 89, messages: []string{"c" + unhex("0201 002c 0a000001 00000000") + strings.Repeat("\x00", 32)}},
		{name: "sctp", protocol: 132, messages: []string{"c" + unhex("0b59 0b59 00000000 00000000 01000014 12345678 0000ffff 000a 000a 00000001")}},
		{name: "unknown", protocol: udp, port: 61234, messages: []string{"c" + unhex("a1b2c3d4e5f60718"), "s" + unhex("18070605"), "c" + unhex("a1b2c3d4e5f60718aa")}},
		{name: "unknown to a port", protocol: tcp, port: 443, messages: []string{"c" + unhex("a1b2c3d4e5f60718")}},
	}
}
