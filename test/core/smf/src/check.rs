// SPDX-License-Identifier: Apache-2.0

//! What rs-pfcp reads in a message has to be all that is in it: each element is decoded and encoded again, which has to give
//! the same bytes. Elements of messages and groups may come in any order (TS 29.244 7.2.1).
//!
//! rs-pfcp 0.5.0 departs from TS 29.244 in three places, where the standard is followed:
//! - 7.5.3.1: a Session Establishment Response that does not accept has no UP F-SEID.
//! - 7.5.8.4: an Error Indication Report has F-TEIDs, not Remote GTP-U Peers.
//! - 8.2.27: Downlink Data Service Information goes on after its flags.

use rs_pfcp::error::PfcpError;
use rs_pfcp::ie::*;
use rs_pfcp::message::header::Header;
use rs_pfcp::message::{self, MsgType};

/// A message and its elements, in their order.
pub struct Received {
    pub header: Header,
    pub elements: Vec<Ie>,
}

impl Received {
    pub fn first(&self, kind: IeType) -> Option<&Ie> {
        self.elements.iter().find(|ie| ie.ie_type == kind)
    }

    fn accepted(&self) -> bool {
        self.first(IeType::Cause).is_some_and(|ie| ie.payload == [cause::CauseValue::RequestAccepted as u8])
    }
}

/// Reads a message, and says what rs-pfcp and the UPF disagree about.
pub fn read(data: &[u8]) -> Result<(Received, Vec<String>), PfcpError> {
    let header = Header::unmarshal(data)?;
    let body = data.get(header.len() as usize..).unwrap_or_default();
    let elements = IeIterator::new(body).collect::<Result<Vec<_>, _>>()?;
    let received = Received { header, elements };
    let mut faults = Vec::new();
    if usize::from(received.header.length) + 4 != data.len() {
        faults.push(format!("{} bytes with length {}", data.len(), received.header.length));
    }
    match message::parse(data) {
        Err(PfcpError::MissingMandatoryIe { ie_type: IeType::Fseid, .. })
            if received.header.message_type == MsgType::SessionEstablishmentResponse && !received.accepted() => {}
        Err(why) => faults.push(format!("the message: {why}")),
        Ok(read) => {
            faults.extend(differs(&read.all_ies().into_iter().cloned().collect::<Vec<_>>(), &received.elements))
        }
    }
    for ie in &received.elements {
        faults.extend(element(ie));
    }
    Ok((received, faults))
}

/// The elements of a group.
pub fn children(ie: &Ie) -> Result<Vec<Ie>, PfcpError> {
    IeIterator::new(&ie.payload).collect()
}

/// Says which elements are not the same, in any order.
fn differs(read: &[Ie], sent: &[Ie]) -> Option<String> {
    let sorted = |list: &[Ie]| {
        let mut all: Vec<_> = list.iter().map(|ie| (ie.raw_type(), ie.payload.clone())).collect();
        all.sort();
        all
    };
    let (read, sent) = (sorted(read), sorted(sent));
    (read != sent).then(|| format!("rs-pfcp reads {read:02x?}, sent is {sent:02x?}"))
}

/// Checks an element, and those in it.
fn element(ie: &Ie) -> Vec<String> {
    let name = |why: String| format!("element {} ({:?}): {why}", ie.raw_type(), ie.ie_type);
    if ie.ie_type == IeType::ErrorIndicationReport {
        return match children(ie) {
            Ok(list) if !list.is_empty() && list.iter().all(|i| i.ie_type == IeType::Fteid) => {
                list.iter().flat_map(element).collect()
            }
            other => vec![name(format!("has {other:?}"))],
        };
    }
    match group(ie).map(|again| Ok((again?, children(ie)?))) {
        Some(Err(why)) => return vec![name(PfcpError::to_string(&why))],
        Some(Ok((again, list))) => {
            let known: Vec<_> = list.iter().map(without_unread).collect();
            return differs(&again, &known).map(name).into_iter().chain(list.iter().flat_map(element)).collect();
        }
        None => {}
    }
    match leaf(&without_unread(ie)) {
        Err(why) => vec![name(why.to_string())],
        Ok(again) if again != without_unread(ie).payload => {
            vec![name(format!("rs-pfcp reads {again:02x?}, sent is {:02x?}", ie.payload))]
        }
        Ok(_) => vec![],
    }
}

/// The part of an element that rs-pfcp reads.
fn without_unread(ie: &Ie) -> Ie {
    match ie.ie_type {
        IeType::DownlinkDataServiceInformation => Ie::new(ie.ie_type, ie.payload[..1].to_vec()),
        _ => ie.clone(),
    }
}

/// The elements that rs-pfcp finds in a group; nothing for elements that are no groups.
fn group(ie: &Ie) -> Option<Result<Vec<Ie>, PfcpError>> {
    let data = &ie.payload;
    let again = match ie.ie_type {
        IeType::CreatedPdr => created_pdr::CreatedPdr::unmarshal(data).map(|g| g.marshal()),
        IeType::UsageReportWithinSessionModificationResponse => {
            usage_report_smr::UsageReportSmr::unmarshal(data).map(|g| g.marshal())
        }
        IeType::UsageReportWithinSessionDeletionResponse => {
            usage_report_sdr::UsageReportSdr::unmarshal(data).map(|g| g.marshal())
        }
        IeType::UsageReportWithinSessionReportRequest => {
            usage_report_srr::UsageReportSrr::unmarshal(data).map(|g| g.marshal())
        }
        IeType::DownlinkDataReport => downlink_data_report::DownlinkDataReport::unmarshal(data).map(|g| g.marshal()),
        IeType::UserPlanePathFailureReport => {
            user_plane_path_failure_report::UserPlanePathFailureReport::unmarshal(data).map(|g| g.marshal())
        }
        _ => return None,
    };
    Some(again.and_then(|bytes| IeIterator::new(&bytes).collect()))
}

/// Decodes an element and encodes it again.
fn leaf(ie: &Ie) -> Result<Vec<u8>, PfcpError> {
    macro_rules! again {
        ($kind:path) => {
            <$kind>::unmarshal(&ie.payload)?.marshal().into_payload()
        };
    }
    Ok(match ie.ie_type {
        IeType::Cause => again!(cause::Cause),
        IeType::DownlinkDataServiceInformation => {
            again!(downlink_data_service_information::DownlinkDataServiceInformation)
        }
        IeType::DurationMeasurement => again!(duration_measurement::DurationMeasurement),
        IeType::EndTime => again!(end_time::EndTime),
        IeType::FailedRuleId => again!(failed_rule_id::FailedRuleId),
        IeType::Fseid => again!(fseid::Fseid),
        IeType::Fteid => again!(f_teid::Fteid),
        IeType::NodeId => again!(node_id::NodeId),
        IeType::NodeReportType => again!(node_report_type::NodeReportType),
        IeType::OffendingIe => again!(offending_ie::OffendingIe),
        IeType::PdrId => again!(pdr_id::PdrId),
        IeType::PfcpAssociationReleaseRequest => {
            again!(pfcp_association_release_request::PfcpAssociationReleaseRequest)
        }
        IeType::PfcpasRspFlags => again!(pfcpas_rsp_flags::PfcpasRspFlags),
        IeType::RecoveryTimeStamp => again!(recovery_time_stamp::RecoveryTimeStamp),
        IeType::RemoteGtpuPeer => again!(remote_gtpu_peer::RemoteGtpuPeer),
        IeType::ReportType => again!(report_type::ReportType),
        IeType::StartTime => again!(start_time::StartTime),
        IeType::TimeOfFirstPacket => again!(time_of_first_packet::TimeOfFirstPacket),
        IeType::TimeOfLastPacket => again!(time_of_last_packet::TimeOfLastPacket),
        IeType::UeIpAddress => again!(ue_ip_address::UeIpAddress),
        IeType::UpFunctionFeatures => again!(up_function_features::UPFunctionFeatures),
        IeType::UrSeqn => again!(ur_seqn::UrSeqn),
        IeType::UrrId => again!(urr_id::UrrId),
        IeType::UsageReportTrigger => again!(usage_report_trigger::UsageReportTrigger),
        IeType::VolumeMeasurement => volume_measurement::VolumeMeasurement::unmarshal(&ie.payload)?.marshal()?,
        _ => {
            return Err(PfcpError::invalid_value(
                "element",
                ie.raw_type().to_string(),
                "the UPF is not known to send it",
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Session Report Request with these elements.
    fn report(elements: &[Ie]) -> Vec<u8> {
        let body = marshal_ies(elements);
        let mut data = vec![0x21, 56, 0, body.len() as u8 + 12, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 9, 0];
        data.extend(body);
        data
    }

    fn usage(more: &[Ie]) -> Ie {
        let mut list = vec![
            Ie::new(IeType::UrrId, vec![0, 0, 0, 1]),
            Ie::new(IeType::UrSeqn, vec![0, 0, 0, 0]),
            Ie::new(IeType::UsageReportTrigger, vec![2, 0, 0]),
        ];
        list.extend_from_slice(more);
        Ie::new_grouped(IeType::UsageReportWithinSessionReportRequest, list)
    }

    fn faults(elements: &[Ie]) -> Vec<String> {
        read(&report(elements)).expect("a message").1
    }

    #[test]
    fn elements_that_are_right_have_no_fault() {
        let kind = Ie::new(IeType::ReportType, vec![7]);
        let waiting = Ie::new_grouped(
            IeType::DownlinkDataReport,
            vec![Ie::new(IeType::PdrId, vec![0, 2]), Ie::new(IeType::DownlinkDataServiceInformation, vec![1, 46])],
        );
        let unknown = Ie::new_grouped(
            IeType::ErrorIndicationReport,
            vec![Ie::new(IeType::Fteid, vec![1, 0, 0, 0, 9, 192, 0, 2, 10])],
        );
        let none: Vec<String> = vec![];
        assert_eq!(faults(&[waiting, kind, usage(&[Ie::new(IeType::StartTime, vec![1, 2, 3, 4])]), unknown]), none);
    }

    #[test]
    fn what_rs_pfcp_does_not_read_is_a_fault() {
        for wrong in [
            Ie::new(IeType::ReportType, vec![2, 0]),
            Ie::new(IeType::Fteid, vec![1, 0, 0, 0, 9, 192, 0, 2, 10, 0]),
            Ie::new(IeType::Fteid, vec![3, 0, 0, 0, 9, 192, 0, 2, 10]),
            Ie::new(IeType::FarId, vec![0, 0, 0, 1]),
            usage(&[Ie::new(IeType::StartTime, vec![1, 2, 3])]),
            usage(&[Ie::new(IeType::VolumeMeasurement, vec![7, 0, 0, 0, 0, 0, 0, 0, 1])]),
            usage(&[Ie::new(IeType::FarId, vec![0, 0, 0, 1])]),
            Ie::new_grouped(
                IeType::UsageReportWithinSessionReportRequest,
                vec![Ie::new(IeType::UrrId, vec![0, 0, 0, 1])],
            ),
            Ie::new_grouped(
                IeType::DownlinkDataReport,
                vec![Ie::new(IeType::DownlinkDataServiceInformation, vec![1, 46])],
            ),
            Ie::new_grouped(
                IeType::ErrorIndicationReport,
                vec![Ie::new(IeType::RemoteGtpuPeer, vec![2, 192, 0, 2, 10])],
            ),
        ] {
            assert!(!faults(&[wrong.clone()]).is_empty(), "{wrong:?}");
        }
    }

    #[test]
    fn a_wrong_length_is_a_fault() {
        let mut data = report(&[Ie::new(IeType::ReportType, vec![2])]);
        data[3] -= 1;
        assert!(read(&data).map_or(true, |(_, faults)| !faults.is_empty()));
    }

    /// A Session Establishment Response without an F-SEID.
    fn establishment(cause: u8) -> Vec<u8> {
        let body = marshal_ies(&[Ie::new(IeType::NodeId, vec![0, 127, 0, 0, 1]), Ie::new(IeType::Cause, vec![cause])]);
        let mut data = vec![0x21, 51, 0, body.len() as u8 + 12, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 9, 0];
        data.extend(body);
        data
    }

    #[test]
    fn only_a_refusal_needs_no_f_seid() {
        for (cause, right) in [(1, false), (73, true)] {
            let faults = read(&establishment(cause)).expect("a message").1;
            assert_eq!(faults.is_empty(), right, "{faults:?}");
        }
    }

    /// A newer rs-pfcp may need the exceptions no longer.
    #[test]
    fn rs_pfcp_departs_from_the_standard() {
        assert!(message::parse(&establishment(73)).is_err());
        let unknown = Ie::new(IeType::Fteid, vec![1, 0, 0, 0, 9, 192, 0, 2, 10]).marshal();
        assert!(error_indication_report::ErrorIndicationReport::unmarshal(&unknown).is_err());
        assert_ne!(leaf(&Ie::new(IeType::DownlinkDataServiceInformation, vec![1, 46])).expect("an element"), [1, 46]);
    }
}
