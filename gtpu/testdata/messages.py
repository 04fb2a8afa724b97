# SPDX-License-Identifier: Apache-2.0

"""Writes and reads GTP-U with scapy: messages.py SEED COUNT < LINES

It prints COUNT random messages, with their bytes and the fields that they were made of, and then the fields of each line: a
message in hexadecimal, or "frame" and an Ethernet frame with one. Values are JSON objects, one a line.
"""

import json
import logging
import random
import sys

logging.getLogger("scapy").setLevel(logging.ERROR)

from scapy.contrib.gtp import (
    GTP_PDCP_PDU_ExtensionHeader, GTP_U_Header, GTP_UDPPort_ExtensionHeader, GTPEchoRequest, GTPEchoResponse,
    GTPErrorIndication, GTPHeader, GTPPDUSessionContainer, IE_GSNAddress, IE_Recovery, IE_TEIDI)
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw, bind_layers

PORT, CONTAINER, PDCP = 0x40, 0x85, 0xc0
HEADERS = {PORT: (GTP_UDPPort_ExtensionHeader, "next_ex"), CONTAINER: (GTPPDUSessionContainer, "NextExtHdr")}

# scapy knows the headers, but not that each may follow each.
for before, field in HEADERS.values():
    for kind, (after, _) in HEADERS.items():
        bind_layers(before, after, **{field: kind})


def container(r, following):
    """A PDU Session Container with random fields. scapy pads the last header only."""
    uplink, last = r.randrange(2), following == 0
    fields = {"type": uplink, "QFI": r.randrange(64), "QMP": r.randrange(2), "SNP": r.randrange(2)}
    if uplink:
        fields.update(dlDelayInd=r.randrange(2), ulDelayInd=r.randrange(2), N3N9DelayInd=r.randrange(2))
        fields.update(dlSendTimeRpt=r.getrandbits(64), dlDelayRslt=r.getrandbits(32), UlQFISeqNum=r.getrandbits(24))
        if not last:
            fields["SNP"] = 0
    else:
        fields.update(RQI=r.randrange(2), PPP=r.randrange(2), PPI=r.randrange(8))
        fields.update(dlSendTime=r.getrandbits(64), dlQFISeqNum=r.getrandbits(24))
        if not last:
            fields["SNP"] = fields["PPP"]
    return GTPPDUSessionContainer(NextExtHdr=following, **fields)


def session(layer):
    return {"Uplink": layer.type == 1, "QFI": layer.QFI, "Reflective": layer.type == 0 and layer.RQI == 1}


def address(r, version):
    if version == 4:
        return "198.51.100.%d" % r.randrange(1, 255)
    return "2001:db8::%x" % r.randrange(1, 0x10000)


def packet(r):
    """A user's packet. Its length is a multiple of 4: scapy pads the packet behind extension headers otherwise."""
    version = r.choice((4, 6))
    ip = (IP if version == 4 else IPv6)(src=address(r, version), dst=address(r, version))
    transport = r.choice((UDP, TCP))(sport=r.randrange(65536), dport=r.randrange(65536))
    return ip / transport / Raw(r.randbytes(4 * r.randrange(20)))


def extensions(r, is_):
    """Extension headers, as scapy's layers; notes their fields."""
    kinds = [r.choice((CONTAINER, CONTAINER, PORT)) for _ in range(r.choice((0, 1, 1, 1, 2, 3, 8)))]
    if r.randrange(10) == 0:
        kinds.insert(r.randrange(min(len(kinds), 7) + 1), PDCP)
        kinds = kinds[:8]
    layers = []
    for kind, following in zip(kinds, kinds[1:] + [0]):
        if kind == CONTAINER:
            layers.append(container(r, following))
        elif kind == PORT:
            layers.append(GTP_UDPPort_ExtensionHeader(udp_port=r.randrange(65536), next_ex=following))
        else:
            layers.append(GTP_PDCP_PDU_ExtensionHeader(pdcp_pdu=r.randrange(65536), next_ex=following))
    for kind, layer in zip(kinds, layers):
        if kind == PDCP:
            is_["Unknown"] = True
            break
        is_["Extensions"].append(kind)
        if kind == CONTAINER:
            is_["Session"] = session(layer)
        else:
            is_["Ports"].append(layer.udp_port)
    return kinds[0] if kinds else 0, layers


def drawn(r):
    """A random message: its bytes, and the fields that it was made of."""
    kind = r.choice((255, 255, 255, 255, 255, 254, 1, 2, 26))
    is_ = {"Type": kind, "TEID": r.getrandbits(32), "Extensions": [], "Ports": []}
    flags = {"S": int(kind in (1, 2, 26)) or r.randrange(2), "PN": r.randrange(2)}
    others = {"seq": r.randrange(65536), "npdu": r.randrange(256), "next_ex": r.randrange(256)}  # not valid without their flags
    layers, payload = [], b""
    if kind in (254, 255):
        first, layers = extensions(r, is_)
        if layers or r.randrange(2):
            flags["E"], others["next_ex"] = 1, first
    if flags["S"]:
        is_["Sequence"] = others["seq"]
    if flags["PN"]:
        is_["PDUNumber"] = others["npdu"]
    header = (GTP_U_Header if kind >= 26 else GTPHeader)(gtp_type=kind, teid=is_["TEID"], **flags, **others)
    if kind == 255:
        payload = packet(r)
    elif kind == 1:
        payload = GTPEchoRequest()
    elif kind == 2:
        is_["Recovery"] = r.randrange(256)
        payload = GTPEchoResponse(IE_list=[IE_Recovery(restart_counter=is_["Recovery"])])
    elif kind == 26:
        version, teid = r.choice((4, 6)), r.getrandbits(32)
        is_["Indicated"] = {"TEID": teid, "Address": address(r, version)}
        peer = {"ipv%d_address" % version: is_["Indicated"]["Address"]}
        payload = GTPErrorIndication(IE_list=[IE_TEIDI(TEIDI=teid), IE_GSNAddress(length=4 if version == 4 else 16, **peer)])
    is_["Payload"] = bytes(payload).hex()
    for layer in layers:
        header = header / layer
    is_["Bytes"] = bytes(header / payload if payload else header).hex()
    if "Unknown" in is_:
        del is_["Payload"]
    return is_


def read(header):
    """The fields of a message that was read."""
    is_ = {"Type": header.gtp_type, "TEID": header.teid, "Extensions": [], "Ports": []}
    if header.version != 1 or header.PT != 1 or header.length != len(header.original) - 8:
        raise ValueError("version, protocol type or length: " + header.show2(dump=True))
    if header.S:
        is_["Sequence"] = header.seq
    if header.PN:
        is_["PDUNumber"] = header.npdu
    layer = header.payload
    while isinstance(layer, (GTPPDUSessionContainer, GTP_UDPPort_ExtensionHeader)):
        if isinstance(layer, GTPPDUSessionContainer):
            is_["Extensions"].append(CONTAINER)
            is_["Session"] = session(layer)
        else:
            is_["Extensions"].append(PORT)
            is_["Ports"].append(layer.udp_port)
        layer = layer.payload
    is_["Payload"] = layer.original.hex() if layer else ""
    if isinstance(layer, GTPEchoResponse):
        [recovery] = layer.IE_list
        is_["Recovery"] = recovery.restart_counter
    elif isinstance(layer, GTPErrorIndication):
        teid, peer = layer.IE_list
        is_["Indicated"] = {"TEID": teid.TEIDI, "Address": peer.ipv4_address if peer.length == 4 else peer.ipv6_address}
    return is_


def main():
    r = random.Random(int(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        print(json.dumps(drawn(r)))
    for line in sys.stdin.read().split("\n"):
        if line.startswith("frame "):
            frame = Ether(bytes.fromhex(line[len("frame "):]))
            outer = frame.payload
            print(json.dumps(dict(read(frame[UDP].payload), From=outer.src, To=outer.dst)))
        elif line:
            print(json.dumps(read(UDP(sport=2152, dport=2152).guess_payload_class(b"")(bytes.fromhex(line)))))


main()
