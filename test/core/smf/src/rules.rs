// SPDX-License-Identifier: Apache-2.0

//! The messages of the SMF. Each session has the same rules, as far as the commands do not change them:
//!
//! | PDR | packets | FAR |
//! |---|---|---|
//! | 1 | from the device | 1: to the data network |
//! | 2 | to the device | 2: into the tunnel to the base station |
//! | 3 | UDP from the device to a rejected port | 3: dropped |
//!
//! QER 1 limits the rate, QER 2 has the QFI 9, and URR 1 measures bytes, packets and time of PDRs 1 and 2.
//!
//! rs-pfcp 0.5.0 has no field for these elements, or another form of them; they are put together here:
//! - 7.5.2.4: Measurement Information in a Create URR.
//! - 7.5.4.3: PFCPSMReq-Flags in Update Forwarding Parameters.
//! - 7.5.4.10: a Query URR is a group.

use std::net::Ipv4Addr;

use rs_pfcp::ie::*;
use rs_pfcp::message::*;

use crate::check::Received;
use crate::n4::Node;
use crate::Outcome;

use apply_action::ApplyAction;
use create_far::CreateFar;
use create_pdr::CreatePdrBuilder;
use create_qer::CreateQerBuilder;
use destination_interface::{DestinationInterface, Interface};
use far_id::FarId;
use forwarding_parameters::ForwardingParameters;
use outer_header_creation::OuterHeaderCreation;
use pdi::PdiBuilder;
use pdr_id::PdrId;
use qer_id::QerId;
use source_interface::{SourceInterface, SourceInterfaceValue};
use urr_id::UrrId;

type Request = Outcome<Box<dyn Message>>;

/// The QFI of all packets.
const QFI: u8 = 9;
/// Outer Header Removal of GTP-U over UDP over IP (8.2.64).
const GTPU_UDP_IP: u8 = 6;

fn boxed(m: impl Message + 'static) -> Request {
    Ok(Box::new(m))
}

fn accepted() -> Ie {
    Ie::new(IeType::Cause, cause::Cause::new(cause::CauseValue::RequestAccepted).marshal().to_vec())
}

fn node_id(node: Node) -> Ie {
    node_id::NodeId::new_ipv4(node.address).to_ie()
}

/// The response that accepts a request of the UPF; `seid` is that of the UPF's session.
pub fn acceptance(node: Node, seid: u64, m: &Received) -> Request {
    let sequence = m.header.sequence_number;
    match m.header.message_type {
        MsgType::HeartbeatRequest => boxed(
            heartbeat_response::HeartbeatResponseBuilder::new(sequence).recovery_time_stamp(node.recovery).build(),
        ),
        MsgType::NodeReportRequest => boxed(NodeReportResponse::new(sequence, node_id(node), accepted(), None, vec![])),
        MsgType::AssociationUpdateRequest => {
            boxed(AssociationUpdateResponse::new(sequence, node_id(node), accepted(), None, None, vec![], vec![]))
        }
        MsgType::SessionReportRequest => {
            boxed(session_report_response::SessionReportResponseBuilder::accepted(seid, sequence).build()?)
        }
        other => Err(format!("{other:?} is no request of a UPF").into()),
    }
}

pub fn association(node: Node) -> Request {
    let request = association_setup_request::AssociationSetupRequestBuilder::new(0).node_id(node.address);
    boxed(request.recovery_time_stamp(node.recovery).build())
}

pub fn heartbeat(node: Node) -> Request {
    boxed(heartbeat_request::HeartbeatRequestBuilder::new(0).recovery_time_stamp(node.recovery).build())
}

pub fn release(node: Node) -> Request {
    boxed(AssociationReleaseRequest::new(0, node_id(node)))
}

/// Establishes a session: the UPF chooses the TEID and the device's address.
pub fn establishment(node: Node, session: u64, station: Ipv4Addr, teid: u32, rejected: u16) -> Request {
    let pdrs = [from_device(None)?, to_device()?, from_device(Some(rejected))?];
    let request = session_establishment_request::SessionEstablishmentRequestBuilder::new(0, 0)
        .node_id(node.address)
        .fseid(session, node.address)
        .create_pdrs(pdrs.to_vec())
        .add_far(
            CreateFar::new(FarId::new(1), ApplyAction::FORW)
                .with_forwarding_parameters(ForwardingParameters::new(to(Interface::Core))),
        )
        .add_far(
            CreateFar::new(FarId::new(2), ApplyAction::FORW).with_forwarding_parameters(
                ForwardingParameters::new(to(Interface::Access))
                    .with_outer_header_creation(OuterHeaderCreation::gtpu_ipv4(teid, station)),
            ),
        )
        .add_far(CreateFar::new(FarId::new(3), ApplyAction::DROP))
        .add_qer(CreateQerBuilder::open_gate(QerId::new(1)).rate_limit(1_000_000, 1_000_000).build()?)
        .add_qer(CreateQerBuilder::open_gate(QerId::new(2)).qfi(qfi::Qfi::new(QFI)?).build()?)
        .create_urrs(vec![usage()?])
        .pdn_type(pdn_type::PdnType::new(pdn_type::PdnTypeValue::Ipv4).to_ie());
    boxed(request.build()?)
}

/// A request that must be refused: the PDR names a FAR that is not there.
pub fn establishment_without_far(node: Node, session: u64) -> Request {
    let request = session_establishment_request::SessionEstablishmentRequestBuilder::new(0, 0).node_id(node.address);
    let request = request.fseid(session, node.address).create_pdrs(vec![to_device()?]);
    boxed(request.add_far(CreateFar::new(FarId::new(3), ApplyAction::DROP)).build()?)
}

fn to(interface: Interface) -> DestinationInterface {
    DestinationInterface::new(interface)
}

/// PDR 1, or PDR 3 with a port.
fn from_device(rejected: Option<u16>) -> Outcome<Ie> {
    let mut pdi = PdiBuilder::new(SourceInterface::new(SourceInterfaceValue::Access))
        .f_teid(f_teid::Fteid::builder().choose_ipv4().choose_id(5).build()?)
        .network_instance(network_instance::NetworkInstance::new("internet"))
        .ue_ip_address(ue_ip_address::UeIpAddress::choose(true, false))
        .qfi(qfi::Qfi::new(QFI)?);
    let (id, precedence) = match rejected {
        None => (1, 200),
        Some(port) => {
            pdi = pdi.sdf_filter(sdf_filter::SdfFilter::new(&format!("permit out 17 from any {port} to assigned")));
            (3, 100)
        }
    };
    let mut pdr = CreatePdrBuilder::new(PdrId::new(id))
        .precedence(precedence::Precedence::new(precedence))
        .pdi(pdi.build()?)
        .outer_header_removal(outer_header_removal::OuterHeaderRemoval::new(GTPU_UDP_IP))
        .far_id(FarId::new(id.into()));
    if rejected.is_none() {
        pdr = pdr.qer_id(QerId::new(1)).qer_id(QerId::new(2)).urr_id(UrrId::new(1));
    }
    Ok(pdr.build()?.to_ie())
}

/// PDR 2.
fn to_device() -> Outcome<Ie> {
    let mut device = ue_ip_address::UeIpAddress::choose(true, false);
    device.source_destination = true;
    let pdi = PdiBuilder::new(SourceInterface::new(SourceInterfaceValue::Core)).ue_ip_address(device).build()?;
    let pdr = CreatePdrBuilder::new(PdrId::new(2))
        .precedence(precedence::Precedence::new(200))
        .pdi(pdi)
        .far_id(FarId::new(2));
    Ok(pdr.qer_id(QerId::new(1)).qer_id(QerId::new(2)).urr_id(UrrId::new(1)).build()?.to_ie())
}

/// URR 1, which reports at a volume threshold.
fn usage() -> Outcome<Ie> {
    let urr = create_urr::CreateUrrBuilder::new(UrrId::new(1))
        .measurement_method(measurement_method::MeasurementMethod::new(true, true, false))
        .reporting_triggers(reporting_triggers::ReportingTriggers::new().with_volume_threshold(true))
        .volume_threshold_bytes(1 << 40)
        .build()?;
    let packets =
        measurement_information::MeasurementInformation::new(measurement_information::MeasurementInformation::MNOP);
    let mut payload = urr.marshal();
    payload.extend(packets.to_ie().marshal());
    Ok(Ie::new(IeType::CreateUrr, payload))
}

fn modification(seid: u64) -> session_modification_request::SessionModificationRequestBuilder {
    session_modification_request::SessionModificationRequestBuilder::new(seid, 0)
}

fn update_far(id: u32, action: ApplyAction, parameters: Option<Ie>) -> Ie {
    let mut list = vec![FarId::new(id).to_ie(), action.to_ie()];
    list.extend(parameters);
    Ie::new(IeType::UpdateFar, marshal_ies(&list))
}

/// Forwards the packets to the device into another tunnel, after an End Marker in the former.
pub fn tunnel(seid: u64, station: Ipv4Addr, teid: u32, end_marker: bool) -> Request {
    let mut list = vec![to(Interface::Access).to_ie(), OuterHeaderCreation::gtpu_ipv4(teid, station).to_ie()];
    if end_marker {
        list.push(Ie::new(IeType::PfcpsmReqFlags, pfcpsm_req_flags::PfcpsmReqFlags::SNDEM.marshal().to_vec()));
    }
    let parameters = Ie::new(IeType::UpdateForwardingParameters, marshal_ies(&list));
    let far = update_far(2, ApplyAction::from(ApplyAction::FORW), Some(parameters));
    boxed(modification(seid).update_fars(vec![far]).build())
}

/// Buffers the packets to the device, and has the first one reported.
pub fn buffer(seid: u64) -> Request {
    let far =
        update_far::UpdateFar::builder(FarId::new(2)).apply_action(ApplyAction::BUFF | ApplyAction::NOCP).build()?;
    boxed(modification(seid).add_update_far(far).build())
}

/// A request that must be refused: there is no such FAR.
pub fn forward_unknown(seid: u64) -> Request {
    let far = update_far(99, ApplyAction::from(ApplyAction::FORW), None);
    boxed(modification(seid).update_fars(vec![far]).build())
}

/// A request that must be refused: an Update FAR names its FAR.
pub fn forward_nameless(seid: u64) -> Request {
    let far = Ie::new(IeType::UpdateFar, ApplyAction::from(ApplyAction::DROP).to_ie().marshal());
    boxed(modification(seid).update_fars(vec![far]).build())
}

/// Limits the rates, in kbit/s.
pub fn rate(seid: u64, up: u64, down: u64) -> Request {
    let qer = update_qer::UpdateQer::builder(QerId::new(1)).rate_limit(up, down).build()?;
    boxed(modification(seid).add_update_qer(qer).build())
}

/// Has usage reported each time after so many bytes.
pub fn threshold(seid: u64, bytes: u64) -> Request {
    let limit = volume_threshold::VolumeThreshold::new(true, false, false, Some(bytes), None, None);
    let urr = update_urr::UpdateUrr::builder(UrrId::new(1)).volume_threshold(limit).build()?;
    boxed(modification(seid).add_update_urr(urr).build())
}

/// Has usage reported now.
pub fn query(seid: u64) -> Request {
    let urr = Ie::new(IeType::QueryUrr, UrrId::new(1).to_ie().marshal());
    boxed(modification(seid).query_urrs(vec![urr]).build())
}

pub fn deletion(seid: u64) -> Request {
    boxed(session_deletion_request::SessionDeletionRequestBuilder::new(seid, 0).build())
}
