//! Quantities as people write them: `10s`, `1Gbit`, `14.88M`, `9-109`, `198.18.0.0/15`, and back to
//! text.
//!
//! Reading is exact (no floating point) and refuses what it would have to round or guess; a
//! [`BadText`] points at the bad part and says what is accepted.

mod arrivals;
mod bad_text;
mod interval;
mod labels;
mod list;
mod mix;
mod number;
mod percentage;
mod quantity;
mod queues;
mod ramp;
mod start_time;
mod table;
mod time_of_day;
mod vlan;
mod wire_rate;

pub use arrivals::arrivals;
pub use bad_text::BadText;
pub use interval::{Addresses, CpuSequence, Interval};
pub use labels::Labels;
pub use list::List;
pub use mix::{Mix, byte, frame_mix, frame_size, spi};
pub use number::{decimal, number, within};
pub use percentage::percentage;
pub use quantity::{BitRate, Count, FrameRate, Nanos, Pps, Size, time_with_unit};
pub use queues::Queues;
pub use ramp::ramp;
pub use report::human::{
    human_bps, human_count, human_duration, human_pps, human_size, per_second, quantity_of,
};
pub use start_time::start_time;
pub use table::Table;
pub use time_of_day::{clock_time, clock_time_ns, time_of_day_ns, utc_time};
pub use vlan::{VlanId, VlanPriority, VlanType};
pub use wire_rate::WireRate;
