// SPDX-License-Identifier: Apache-2.0

//! A message as a line: what the test compares, as rs-pfcp decodes it.

use rs_pfcp::error::PfcpError;
use rs_pfcp::ie::*;

use crate::check::{children, Received};

/// The kind of a message and what it says.
pub fn line(m: &Received) -> String {
    let mut words = vec![format!("{:?}", m.header.message_type)];
    if m.header.has_seid {
        words.push(format!("to={}", *m.header.seid));
    }
    for ie in &m.elements {
        match show(ie) {
            Ok(text) => words.extend(text),
            Err(why) => words.push(format!("unreadable={:?}:{}", ie.ie_type, why.to_string().replace(' ', "_"))),
        }
    }
    words.join(" ")
}

/// What an element says; nothing for elements that are only checked.
fn show(ie: &Ie) -> Result<Option<String>, PfcpError> {
    Ok(Some(match ie.ie_type {
        IeType::Cause => format!("cause={}", ie.parse::<cause::Cause>()?.value as u8),
        IeType::OffendingIe => format!("offending={}", offending_ie::OffendingIe::unmarshal(&ie.payload)?.ie_type),
        IeType::FailedRuleId => {
            let failed = failed_rule_id::FailedRuleId::unmarshal(&ie.payload)?;
            format!("failed={:?}:{}", failed.rule_type(), failed.rule_id())
        }
        IeType::NodeId => format!("node={:?}", ie.parse::<node_id::NodeId>()?),
        IeType::RecoveryTimeStamp => {
            format!("recovery={}", ie.parse::<recovery_time_stamp::RecoveryTimeStamp>()?.ntp_seconds())
        }
        IeType::UpFunctionFeatures => features(&ie.parse()?),
        IeType::Fseid => format!("seid={}", *ie.parse::<fseid::Fseid>()?.seid),
        IeType::CreatedPdr => created(&ie.parse()?),
        IeType::ReportType => format!("types={:?}", ie.parse::<report_type::ReportType>()?).replace(' ', ""),
        IeType::DownlinkDataReport => {
            format!("waiting={}", ie.parse::<downlink_data_report::DownlinkDataReport>()?.pdr_id.value)
        }
        IeType::ErrorIndicationReport => {
            let list = children(ie)?;
            let remote = list.first().ok_or_else(|| PfcpError::missing_ie_in_grouped(IeType::Fteid, ie.ie_type))?;
            format!("unknown={}", tunnel(&remote.parse()?))
        }
        IeType::UserPlanePathFailureReport => {
            let list = children(ie)?;
            let peer =
                list.first().ok_or_else(|| PfcpError::missing_ie_in_grouped(IeType::RemoteGtpuPeer, ie.ie_type))?;
            format!("silent={:?}", peer.parse::<remote_gtpu_peer::RemoteGtpuPeer>()?.ipv4)
        }
        IeType::PfcpAssociationReleaseRequest => {
            let wish = pfcp_association_release_request::PfcpAssociationReleaseRequest::unmarshal(&ie.payload)?;
            format!("release={wish:?}")
        }
        IeType::UsageReportWithinSessionModificationResponse => {
            usage(&ie.parse::<usage_report_smr::UsageReportSmr>()?.report)
        }
        IeType::UsageReportWithinSessionDeletionResponse => {
            usage(&ie.parse::<usage_report_sdr::UsageReportSdr>()?.report)
        }
        IeType::UsageReportWithinSessionReportRequest => usage(&ie.parse::<usage_report_srr::UsageReportSrr>()?.report),
        _ => return Ok(None),
    }))
}

/// The features that the session of the test makes use of.
fn features(f: &up_function_features::UPFunctionFeatures) -> String {
    use up_function_features::UPFunctionFeatures as All;
    let named =
        [("DDND", All::DDND), ("FTUP", All::FTUP), ("EMPU", All::EMPU), ("UEIP", All::UEIP), ("MNOP", All::MNOP)];
    let has: Vec<_> = named.into_iter().filter(|(_, is)| f.contains(*is)).map(|(name, _)| name).collect();
    format!("features={}", has.join(","))
}

fn tunnel(f: &f_teid::Fteid) -> String {
    format!("{}@{}", *f.teid, f.ipv4_address.map_or_else(|| "?".to_string(), |a| a.to_string()))
}

/// What the UPF has chosen for a PDR.
fn created(pdr: &created_pdr::CreatedPdr) -> String {
    let mut words = vec![format!("pdr={}", pdr.pdr_id.value)];
    words.extend(pdr.f_teid.iter().map(|f| format!("teid.{}={}", pdr.pdr_id.value, tunnel(f))));
    for address in pdr.ue_ip_addresses.iter().filter_map(|ue| ue.ipv4_address) {
        words.push(format!("address.{}={address}", pdr.pdr_id.value));
    }
    words.join(" ")
}

/// A usage report: URR, UR-SEQN, triggers, then bytes and packets, in all, up and down, and seconds.
fn usage(u: &usage_report::UsageReport) -> String {
    use usage_report_trigger::UsageReportTrigger as All;
    let named = [("VOLTH", All::VOLTH), ("IMMER", All::IMMER), ("TERMR", All::TERMR)];
    let why: Vec<_> =
        named.into_iter().filter(|(_, is)| u.usage_report_trigger.contains(*is)).map(|(name, _)| name).collect();
    let number = |n: Option<u64>| n.map_or_else(|| "-".to_string(), |n| n.to_string());
    let volumes = u.volume_measurement.as_ref().map_or(vec![], |v| {
        vec![v.total_volume, v.uplink_volume, v.downlink_volume, v.total_packets, v.uplink_packets, v.downlink_packets]
    });
    let volumes: Vec<_> = volumes.into_iter().map(number).collect();
    let seconds = number(u.duration_measurement.as_ref().map(|d| d.duration_seconds.into()));
    format!("usage={}:{}:{}:{}:{seconds}", u.urr_id.id, u.ur_seqn.sequence_number(), why.join(","), volumes.join(":"))
}
