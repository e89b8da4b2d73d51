//! Open Traffic Generator: configurations to ports, captures and flows, and flows to the packets of
//! plans.
//!
//! [`read_json`] and [`read_protobuf`] check bodies against the whole [`model`].
//! [`OtgConfig::read`] takes the part that wirerate does, and refuses the rest with the path of
//! each field. [`AddressResolution`] answers ARP, Neighbor Discovery and ping for the emulated
//! interfaces of a port.
#![forbid(unsafe_code)]

mod body;
mod capture;
mod config;
mod counts;
mod device;
mod echo;
pub mod edit;
mod flow;
mod header;
mod long_config;
pub mod metrics;
pub mod model;
mod node;
mod part;
mod pattern;
mod payload;
mod request;
mod resolution;
mod schedule;
mod sent_values;
mod size;
mod stack;
mod table;
mod tag;
mod topology;
mod vlan;

pub use body::{FLOWS_MAX, PORTS_MAX, read_json, read_protobuf};
pub use capture::{BitMatch, CaptureConfig, CaptureFormat};
pub use config::OtgConfig;
pub use device::{EmulatedInterface, InterfaceAddress};
pub use flow::{Copies, FlowConfig, FlowMetrics};
pub use long_config::{check_long_config, check_long_message};
pub use node::FINDINGS_MAX;
pub use part::ConfigPart;
pub use request::{
    CaptureQuery, ControlRequest, MetricsQuery, PingRequest, PingRequests, RequestRefusal, TransmitState,
};
pub use resolution::{AddressResolution, PingState};
pub use schedule::{FlowDuration, FlowRate, FlowSchedule, Gap};
pub use table::{EgressRow, EgressTaggedRow, TagText, TagValue, TaggedQuery, TaggedRow};
pub use tag::{EgressTracking, FramesByValues, MetricTag, TAG_PART_BITS_MAX, TAG_PARTS_MAX, tag_values};
pub use topology::{PortConfig, SPEED_DEFAULT};
pub use vlan::VlanTag;
