# SPDX-License-Identifier: Apache-2.0

"""An SMF whose messages are scapy's: smf.py ADDRESS UPF SEED COUNT

It sets up an association, updates and releases it, sets up another one, establishes COUNT sessions with random rules, changes
all, deletes every second one, and has requests refused. It ends when it has got each kind of report. Every message of the UPF
has to be made of elements that scapy knows, and nothing else. It prints the sessions that are left, as they should be, a JSON
object each.
"""

import json
import logging
import random
import socket
import sys
import time

logging.getLogger("scapy").setLevel(logging.ERROR)

from scapy.contrib.pfcp import (
    PFCP, IE_ApplyAction, IE_BAR_Id, IE_Cause, IE_CPFunctionFeatures, IE_Create_BAR, IE_CreateFAR, IE_CreatePDR,
    IE_CreateQER, IE_CreateURR, IE_DestinationInterface, IE_DownlinkDataNotificationDelay, IE_FailedRuleId, IE_FAR_Id, IE_ForwardingParameters,
    IE_ForwardingPolicy, IE_FSEID, IE_FTEID, IE_GateStatus, IE_MBR, IE_MeasurementMethod, IE_NodeId, IE_NotImplemented,
    IE_OffendingIE, IE_OuterHeaderCreation, IE_OuterHeaderRemoval, IE_PDI, IE_PDNType, IE_PDR_Id, IE_PFCPSMReqFlags, IE_Precedence, IE_QER_Id,
    IE_QFI, IE_QueryURR, IE_RecoveryTimeStamp, IE_RemovePDR, IE_RemoveFAR, IE_ReportingTriggers, IE_SDF_Filter,
    IE_SourceInterface, IE_TransportLevelMarking, IE_UE_IP_Address, IE_UpdateFAR, IE_UpdateForwardingParameters, IE_UpdateQER,
    IE_UPFunctionFeatures, IE_URR_Id, IE_UsageReportTrigger, IE_VolumeMeasurement, IE_VolumeThreshold, PFCPAssociationReleaseRequest, PFCPAssociationSetupRequest,
    PFCPAssociationUpdateRequest, PFCPHeartbeatRequest, PFCPHeartbeatResponse, PFCPNodeReportResponse, PFCPSessionDeletionRequest,
    PFCPSessionEstablishmentRequest, PFCPSessionModificationRequest, PFCPSessionReportResponse)
from scapy.packet import Padding, Raw

ACCEPTED, NOT_FOUND, MISSING, NO_POLICY, RULE_FAILED = 1, 65, 66, 70, 73
LONGER = (IE_UPFunctionFeatures, IE_UsageReportTrigger)  # since release 16; scapy knows release 15
PATIENCE = 60

address, upf = sys.argv[1], sys.argv[2]
r = random.Random(int(sys.argv[3]))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((address, 8805))
s.connect((upf, 8805))
sequence = 0
recovery = IE_RecoveryTimeStamp(timestamp=3_900_000_000)
reports = {"DLDR": 0, "USAR": 0, "ERIR": 0, "node": 0}
sessions = {}


def check(holds, what, packet=None):
    if not holds:
        sys.exit(what + ("\n" + packet.show(dump=True) if packet else ""))


def elements(packet):
    """All elements of a message, also those in others."""
    for element in getattr(packet, "IE_list", None) or []:
        yield element
        yield from elements(element)


def find(packet, kind):
    return [e for e in elements(packet) if isinstance(e, kind)]


def one(packet, kind):
    found = find(packet, kind)
    check(len(found) == 1, "%d elements %s" % (len(found), kind.__name__), packet)
    return found[0]


def receive():
    """The next message, with nothing in it that scapy does not know."""
    data = s.recv(65535)
    packet = PFCP(data)
    message = packet.payload
    check(packet.length == len(data) - 4 and not isinstance(message, Raw), "not a message", packet)
    check(not message.payload, "something behind the elements", packet)
    for element in elements(message):
        check(not isinstance(element, (Raw, Padding, IE_NotImplemented)), "an unknown element", packet)
        check(isinstance(element, LONGER) or not getattr(element, "extra_data", b""), "bytes behind the fields of an element", packet)
        check(not element.payload, "something behind an element", packet)
        check(not getattr(element, "spare", 0), "spare bits", packet)
    answer(packet)
    return packet


def answer(packet):
    """Answers requests of the UPF."""
    fields, message = {"seq": packet.seq, "message_type": packet.message_type + 1, "S": 0}, packet.payload
    accepted = [IE_NodeId(ipv4=address), IE_Cause(cause=ACCEPTED)]
    if packet.message_type == 1:
        body = PFCPHeartbeatResponse(IE_list=[recovery])
    elif packet.message_type == 12:
        reports["node"] += 1
        body = PFCPNodeReportResponse(IE_list=accepted)
    elif packet.message_type == 56:
        for kind in ("DLDR", "USAR", "ERIR"):
            reports[kind] += getattr(message.IE_list[0], kind)
        check(packet.seid in sessions, "a report for no session", packet)
        usage(message)
        fields.update(S=1, seid=sessions[packet.seid]["SEID"])
        body = PFCPSessionReportResponse(IE_list=accepted[1:])
    else:
        return
    s.send(bytes(PFCP(**fields) / body))


def usage(message):
    """Volumes are 6 parts up and 5 down."""
    for e in find(message, IE_VolumeMeasurement):
        check(e.TOVOL and e.ULVOL and e.DLVOL and e.total == e.uplink + e.downlink and 5 * e.uplink == 6 * e.downlink, "volume", message)


def ask(kind, body, seid=None, cause=ACCEPTED, cp=0):
    """Sends a request, and returns its response."""
    global sequence
    sequence += 1
    fields = {"S": 0} if seid is None else {"S": 1, "seid": seid}
    request = PFCP(message_type=kind, seq=sequence, **fields) / body
    deadline, again = time.monotonic() + PATIENCE, 0
    while time.monotonic() < deadline:
        if time.monotonic() >= again:
            s.send(bytes(request))
            again = time.monotonic() + 3
        try:
            packet = receive()
        except socket.timeout:
            continue
        if packet.message_type == kind + 1 and packet.seq == sequence:
            check(packet.answers(request), "another response", packet)
            if kind != 1:
                check(one(packet.payload, IE_Cause).cause == cause, "cause, not %d" % cause, packet)
            check((packet.S == 1) == (seid is not None) and (seid is None or packet.seid == cp), "SEID", packet)
            return packet.payload
    sys.exit("no response to request %d" % kind)


def tunnel():
    """The other end of a downlink tunnel, and its element."""
    teid = r.randrange(1, 1 << 32)
    if r.randrange(3):
        peer = "192.0.2.%d" % r.randrange(100, 200)
        return peer, teid, IE_OuterHeaderCreation(GTPUUDPIPV4=1, TEID=teid, ipv4=peer)
    peer = "2001:db8:1::%x" % r.randrange(1, 0xffff)
    return peer, teid, IE_OuterHeaderCreation(GTPUUDPIPV6=1, TEID=teid, ipv6=peer)


def downlink(is_, update=False):
    """The FAR of packets to the device: it forwards, or waits."""
    outer, inner = (IE_UpdateFAR, IE_UpdateForwardingParameters) if update else (IE_CreateFAR, IE_ForwardingParameters)
    is_["Wait"] = r.randrange(4) == 0
    if is_["Wait"]:
        return outer(IE_list=[IE_FAR_Id(id=2), IE_ApplyAction(BUFF=1, NOCP=1), IE_BAR_Id(id=1)])
    is_["Peer"], is_["PeerTEID"], creation = tunnel()
    parameters = [IE_DestinationInterface(interface=0), creation]
    is_["DSCP"] = -1
    if r.randrange(3) == 0:
        is_["DSCP"] = r.randrange(64)
        parameters.append(IE_TransportLevelMarking(tos=is_["DSCP"] << 2, traffic_class=0xfc))
    elif update:  # what an update does not name stays
        parameters.append(IE_TransportLevelMarking(tos=0, traffic_class=0))
    if update:
        parameters.append(IE_PFCPSMReqFlags(SNDEM=1))
    return outer(IE_list=[IE_FAR_Id(id=2), IE_ApplyAction(FORW=1), inner(IE_list=parameters)])


def rates(is_, update=False):
    is_["MBRUp"], is_["MBRDown"] = r.randrange(1, 1 << 33), r.randrange(1, 1 << 33)
    is_["ClosedUp"], is_["ClosedDown"] = r.randrange(8) == 0, r.randrange(8) == 0
    gates = IE_GateStatus(ul=int(is_["ClosedUp"]), dl=int(is_["ClosedDown"]))
    return (IE_UpdateQER if update else IE_CreateQER)(IE_list=[IE_QER_Id(id=1), gates, IE_MBR(ul=is_["MBRUp"], dl=is_["MBRDown"])])


def establish(cp):
    is_ = {"CP": cp, "IPv4": "", "IPv6": "", "QFI": r.randrange(1, 64), "Threshold": r.randrange(5000, 100000)}
    device, families = {}, r.choice((1, 2, 3))
    if families & 1:
        is_["IPv4"] = "10.45.%d.%d" % (cp >> 8, cp & 0xff)
        device.update(V4=1, ipv4=is_["IPv4"])
    if families & 2:
        is_["IPv6"] = "2001:db8:45:%x::" % cp
        device.update(V6=1, ipv6=is_["IPv6"] + "1")
    port, choose = r.randrange(1, 65536), r.randrange(3)
    if choose == 2:
        is_["TEID"] = 0x80000000 | cp  # beyond those that the UPF chooses
        teid = IE_FTEID(V4=1, TEID=is_["TEID"], ipv4="192.0.2.1")
    else:
        teid = IE_FTEID(CH=1, V4=1, CHID=choose, choose_id=7)
    is_["Port"] = port
    rules = [IE_QER_Id(id=1), IE_QER_Id(id=2)]
    access = [IE_SourceInterface(interface=0), teid, IE_UE_IP_Address(**device)]
    remote = r.choice(("any", "198.51.100.0/24"))
    is_["Remote"] = remote
    body = [
        IE_NodeId(ipv4=address), IE_FSEID(v4=1, seid=cp, ipv4=address), IE_PDNType(pdn_type=families),
        IE_CreatePDR(IE_list=[
            IE_PDR_Id(id=3), IE_Precedence(precedence=10),
            IE_PDI(IE_list=access + [IE_SDF_Filter(FD=1, flow_description="permit out 17 from %s %d to assigned" % (remote, port))]),
            IE_OuterHeaderRemoval(header=r.choice((0, 6))), IE_FAR_Id(id=1), IE_URR_Id(id=1)] + rules[1:]),
        IE_CreatePDR(IE_list=[
            IE_PDR_Id(id=1), IE_Precedence(precedence=100), IE_PDI(IE_list=access), IE_OuterHeaderRemoval(header=6),
            IE_FAR_Id(id=1), IE_URR_Id(id=1)] + rules),
        IE_CreatePDR(IE_list=[
            IE_PDR_Id(id=2), IE_Precedence(precedence=100),
            IE_PDI(IE_list=[IE_SourceInterface(interface=1), IE_UE_IP_Address(SD=1, **device)]), IE_FAR_Id(id=2), IE_URR_Id(id=1)] + rules),
        IE_CreateFAR(IE_list=[
            IE_FAR_Id(id=1), IE_ApplyAction(FORW=1), IE_ForwardingParameters(IE_list=[IE_DestinationInterface(interface=1)])]),
        downlink(is_),
        rates(is_),
        IE_CreateQER(IE_list=[IE_QER_Id(id=2), IE_GateStatus(), IE_QFI(QFI=is_["QFI"])]),
        IE_CreateURR(IE_list=[
            IE_URR_Id(id=1), IE_MeasurementMethod(VOLUM=1), IE_ReportingTriggers(volume_threshold=1),
            IE_VolumeThreshold(TOVOL=1, total=is_["Threshold"])]),
        IE_Create_BAR(IE_list=[IE_BAR_Id(id=1), IE_DownlinkDataNotificationDelay(delay=0)]),
    ]
    if choose != 1:  # the same tunnel for both PDRs needs a CHOOSE ID
        del body[3]
        is_["Port"] = 0
    sessions[cp] = is_
    response = ask(50, PFCPSessionEstablishmentRequest(IE_list=body), seid=0, cp=cp)
    is_["SEID"] = one(response, IE_FSEID).seid
    check(one(response, IE_FSEID).ipv4 == upf and one(response, IE_NodeId).ipv4 == upf, "addresses", response)
    if choose != 2:
        chosen = {(e.TEID, e.ipv4) for e in find(response, IE_FTEID)}
        check(len(chosen) == 1, "several tunnels", response)
        [(is_["TEID"], at)] = chosen
        check(at == "192.0.2.1", "the address of tunnels", response)
    check({e.id for e in find(response, IE_PDR_Id)} == ({1, 3} if choose == 1 else {1} if choose == 0 else set()), "Created PDRs", response)
    return is_


def modify(is_):
    body = [IE_QueryURR(IE_list=[IE_URR_Id(id=1)])]
    if r.randrange(2):
        body.append(downlink(is_, update=True))
    if r.randrange(2):
        body.append(rates(is_, update=True))
    if is_["Port"] and r.randrange(2):
        body.append(IE_RemovePDR(IE_list=[IE_PDR_Id(id=3)]))
        is_["Port"] = 0
    response = ask(52, PFCPSessionModificationRequest(IE_list=body), seid=is_["SEID"], cp=is_["CP"])
    usage(response)
    check(find(response, IE_VolumeMeasurement), "no usage report", response)


def delete(is_):
    response = ask(54, PFCPSessionDeletionRequest(), seid=is_["SEID"], cp=is_["CP"])
    usage(response)
    check(find(response, IE_VolumeMeasurement), "no usage report", response)
    del sessions[is_["CP"]]


def refusals(is_):
    """Requests that are refused, with the element or the rule that is to blame."""
    node, cp = IE_NodeId(ipv4=address), IE_FSEID(v4=1, seid=0xffff, ipv4=address)
    ask(54, PFCPSessionDeletionRequest(), seid=(1 << 64) - 1, cause=NOT_FOUND)
    response = ask(50, PFCPSessionEstablishmentRequest(IE_list=[node, cp]), seid=0, cause=MISSING, cp=0xffff)
    check(one(response, IE_OffendingIE).type == 1, "not Create PDR", response)
    response = ask(52, PFCPSessionModificationRequest(IE_list=[IE_RemoveFAR(IE_list=[IE_FAR_Id(id=77)])]),
                   seid=is_["SEID"], cause=RULE_FAILED, cp=is_["CP"])
    rule = one(response, IE_FailedRuleId)
    check(rule.type == 1 and rule.far_id == 77, "another rule", response)
    policy = IE_UpdateFAR(IE_list=[
        IE_FAR_Id(id=1), IE_UpdateForwardingParameters(IE_list=[IE_ForwardingPolicy(policy_identifier="x")])])
    response = ask(52, PFCPSessionModificationRequest(IE_list=[policy]), seid=is_["SEID"], cause=NO_POLICY, cp=is_["CP"])
    check(one(response, IE_OffendingIE).type == 41, "not Forwarding Policy", response)


def main():
    count = int(sys.argv[4])
    s.settimeout(1)
    node, features = IE_NodeId(ipv4=address), IE_CPFunctionFeatures()
    ask(5, PFCPAssociationSetupRequest(IE_list=[node, recovery]))
    ask(7, PFCPAssociationUpdateRequest(IE_list=[node, features]))
    ask(9, PFCPAssociationReleaseRequest(IE_list=[node]))
    response = ask(5, PFCPAssociationSetupRequest(IE_list=[node, recovery, features]))
    check(one(response, IE_NodeId).ipv4 == upf and one(response, IE_UPFunctionFeatures).FTUP == 1, "node ID or features", response)
    one(ask(1, PFCPHeartbeatRequest(IE_list=[recovery])), IE_RecoveryTimeStamp)
    for cp in range(1, count + 1):
        establish(cp)
    for is_ in list(sessions.values()):
        modify(is_)
    refusals(sessions[1])
    deadline = time.monotonic() + PATIENCE
    while not all(reports.values()):
        check(time.monotonic() < deadline, "reports: %s" % reports)
        try:
            receive()
        except socket.timeout:
            pass
    for is_ in list(sessions.values())[::2]:
        delete(is_)
    for is_ in sessions.values():
        print(json.dumps(is_))


main()
