//! Latencies: HdrHistogram's array of counts, and percentiles of it.
//!
//! Two significant digits up to 68.7 s: 3,840 counts, each bucket at most 0.78 % wide.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use facts::Described;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::Serialize;
use std::fmt::Write;
use std::io::Read;

/// Counts in a histogram.
pub const HISTOGRAM_LEN: usize = 3840;
/// Buckets of each power of two.
const HALF_BITS: u32 = 7;
/// Highest latency in a bucket of its own; longer ones are in the last bucket.
const VALUE_MAX: u64 = (1 << 36) - 1;
/// Significant decimal digits.
const DIGITS: u8 = 2;

/// Longest text of a histogram that is read: all counts differ.
const V2_LEN_MAX: usize = 1 << 17;

/// Longest histogram after decompression, in bytes: a short text can expand to any length.
const V2_BYTES_MAX: u64 = 1 << 20;
/// The first words of compressed histograms and of those inside (HdrHistogram's format V2).
const V2_COMPRESSED: [u8; 4] = [0x1c, 0x84, 0x93, 0x14];
const V2_PLAIN: [u8; 4] = [0x1c, 0x84, 0x93, 0x13];
/// Bytes of the header inside: cookie, length of the counts, offset, digits, bounds, and a ratio.
const V2_HEADER_LEN: usize = 40;

/// Percentiles in a report.
pub const PERCENTILES: [f64; 8] = [25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999];

/// The bucket of a latency in nanoseconds, as in HdrHistogram.
pub fn histogram_index(latency_ns: u64) -> usize {
    let value = latency_ns.min(VALUE_MAX);
    let shift = (value | ((1 << (HALF_BITS + 1)) - 1)).ilog2() - HALF_BITS;
    ((shift as usize) << HALF_BITS) + (value >> shift) as usize
}

/// Latencies by powers of two: below 2^`first` ns, below 2^(`first` + 1) ns, ... below 2^`last` ns,
/// and all others.
pub fn octaves(counts: &[u64], first: u32, last: u32) -> Vec<u64> {
    let mut octaves = vec![0; (last - first) as usize + 2];
    for (index, count) in counts.iter().enumerate() {
        let power = u64::BITS - lowest_of(index).leading_zeros();
        octaves[(power.clamp(first, last + 1) - first) as usize] += count;
    }
    octaves
}

/// The buckets with latencies: the highest latency of each in nanoseconds (`u64::MAX` of the last
/// one), which is what percentiles in reports are, and its count.
pub fn used_buckets(counts: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    let bound = |index| match index + 1 {
        HISTOGRAM_LEN => u64::MAX,
        next => lowest_of(next) - 1,
    };
    counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(move |(index, count)| (bound(index), *count))
}

/// The lowest latency in a bucket.
fn lowest_of(index: usize) -> u64 {
    let shift = (index >> HALF_BITS).saturating_sub(1);
    ((index - (shift << HALF_BITS)) as u64) << shift
}

/// One-way latency of all stamped frames, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Described)]
pub struct Latency {
    /// First copies with a latency.
    #[fact(unit = "frames")]
    pub stamped: u64,
    /// Their share of the first copies.
    pub stamped_share: f64,
    /// Lowest latency.
    pub min_ns: u64,
    /// Mean latency.
    pub mean_ns: u64,
    /// Highest latency.
    pub max_ns: u64,
    /// Percentiles of the latency, each at most 0.78 % above the exact value.
    pub percentiles: Vec<Percentile>,
    /// Packet delay variation (RFC 5481): 99.9th percentile minus the lowest latency; `null` if
    /// latencies are below 0 or above 68.7 s, as those of clocks that differ are.
    pub pdv_p999_ns: Option<u64>,
    /// Smallest difference of the latencies of two frames with consecutive numbers (RFC 5481);
    /// `null` without such frames.
    pub ipdv_min_ns: Option<i64>,
    /// Largest difference of the latencies of two frames with consecutive numbers (RFC 5481);
    /// `null` without such frames.
    pub ipdv_max_ns: Option<i64>,
    /// Jitter (RFC 3550), mean over the flows; `null` without time stamps.
    pub jitter_mean_ns: Option<f64>,
    /// Jitter of the flow with the most; `null` without time stamps.
    pub jitter_max_ns: Option<f64>,
}

/// A percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Described)]
pub struct Percentile {
    /// The share of the frames: 50 for the median.
    #[fact(unit = "percent")]
    pub percentile: f64,
    /// The latency that they do not exceed.
    pub latency_ns: u64,
}

impl Latency {
    /// The latency at a percentile of [`PERCENTILES`].
    pub fn at(&self, percentile: f64) -> Option<u64> {
        self.percentiles.iter().find(|row| row.percentile == percentile).map(|row| row.latency_ns)
    }
}

/// Decompresses a histogram. It takes at most [`V2_BYTES_MAX`] bytes of memory, and one that names
/// more counts than it has, or other bounds than ours, is rejected before a histogram is allocated.
fn inflated(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let zipped = bytes.strip_prefix(&V2_COMPRESSED).and_then(|rest| rest.get(4..));
    let zipped = zipped.ok_or_else(|| "no histogram of format V2, compressed".to_owned())?;
    let mut plain = Vec::new();
    let read = ZlibDecoder::new(zipped).take(V2_BYTES_MAX + 1).read_to_end(&mut plain);
    read.map_err(|why| format!("no histogram: {why}"))?;
    if plain.len() as u64 > V2_BYTES_MAX {
        return Err(format!("a histogram of more than {V2_BYTES_MAX} bytes"));
    }
    let header = plain.first_chunk::<V2_HEADER_LEN>().filter(|header| header.starts_with(&V2_PLAIN));
    let header = header.ok_or_else(|| "no histogram of format V2".to_owned())?;
    let number = |at: usize, len: usize| {
        header[at..at + len].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let (counts_len, counts) = (number(4, 4), (plain.len() - V2_HEADER_LEN) as u64);
    let bounds = (number(16, 8), number(24, 8), number(12, 4));
    match () {
        () if counts_len > counts => {
            Err(format!("a histogram that names {counts_len} bytes of counts, and has {counts}"))
        }
        () if bounds != (1, VALUE_MAX, u64::from(DIGITS)) => {
            Err(format!("a histogram with other bounds: {bounds:?}"))
        }
        () => Ok(plain),
    }
}

/// A histogram with HdrHistogram's functions.
#[derive(Clone, Debug)]
pub struct HistogramLog {
    histogram: Histogram<u64>,
}

impl HistogramLog {
    /// From counts by [`histogram_index`].
    ///
    /// # Panics
    /// With more than [`HISTOGRAM_LEN`] counts.
    pub fn new(counts: &[u64]) -> Self {
        assert!(counts.len() <= HISTOGRAM_LEN, "{} counts", counts.len());
        let mut histogram =
            Histogram::new_with_bounds(1, VALUE_MAX, DIGITS).expect("constant bounds are good");
        for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            histogram.record_n(lowest_of(index), *count).expect("each bucket is within the bounds");
        }
        Self { histogram }
    }

    /// Reads what [`Self::v2_base64`] returns.
    ///
    /// # Errors
    /// It is something else, or a histogram with other bounds or digits.
    pub fn from_v2_base64(text: &str) -> Result<Self, String> {
        if text.len() > V2_LEN_MAX {
            return Err(format!("a histogram of {} characters: at most {V2_LEN_MAX} are read", text.len()));
        }
        let bytes = STANDARD.decode(text).map_err(|why| format!("no base64: {why}"))?;
        let plain = inflated(&bytes)?;
        let read = Deserializer::new().deserialize(&mut plain.as_slice());
        read.map(|histogram| Self { histogram }).map_err(|why| format!("no histogram: {why}"))
    }

    /// Adds the frames of another one: percentiles are then those of all frames together.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
    }

    /// The lowest latency, to the bucket.
    pub fn min_ns(&self) -> u64 {
        self.histogram.min()
    }

    /// The highest latency, to the bucket.
    pub fn max_ns(&self) -> u64 {
        self.histogram.max()
    }

    /// Frames in it.
    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// True without frames.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The latency that `percentile` per cent of the frames did not exceed.
    pub fn percentile_ns(&self, percentile: f64) -> u64 {
        self.histogram.value_at_percentile(percentile)
    }

    /// HdrHistogram's compressed format V2 in base64, as in its logs; latencies in nanoseconds.
    pub fn v2_base64(&self) -> String {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(&self.histogram, &mut bytes);
        written.expect("a Vec takes all bytes, and counts are below 2^63");
        STANDARD.encode(bytes)
    }

    /// The text of a `.hgrm` file, with latencies in microseconds.
    pub fn hgrm(&self) -> String {
        let mut text = format!(
            "{:>12} {:>14} {:>10} {:>14}\n\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        );
        let mut seen = 0;
        for row in self.histogram.iter_quantiles(5) {
            let row: IterationValue<u64> = row;
            seen += row.count_since_last_iteration();
            let (value, quantile) = (row.value_iterated_to() as f64 / 1000.0, row.quantile_iterated_to());
            write!(text, "{value:>12.3} {quantile:>2.12} {seen:>10}").expect("a String takes any text");
            let inverse = (quantile < 1.0).then(|| format!(" {:>14.2}", 1.0 / (1.0 - quantile)));
            text += &(inverse.unwrap_or_default() + "\n");
        }
        let (mean, deviation) = (self.histogram.mean() / 1000.0, self.histogram.stdev() / 1000.0);
        let (max, buckets) = (self.histogram.max() as f64 / 1000.0, self.histogram.buckets());
        let subbuckets = 2 << HALF_BITS;
        text += &format!("#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]\n");
        text += &format!("#[Max     = {max:>12.3}, Total count    = {:>12}]\n", self.len());
        text += &format!("#[Buckets = {buckets:>12}, SubBuckets     = {subbuckets:>12}]\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;

    #[test]
    fn bounds_of_buckets_are_the_percentiles_of_reports() {
        for latency_ns in [0, 1, 255, 256, 859, 4_191, 123_456_789, VALUE_MAX - (1 << 29)] {
            let mut counts = vec![0; HISTOGRAM_LEN];
            counts[histogram_index(latency_ns)] = 3;
            let found: Vec<_> = used_buckets(&counts).collect();
            assert_eq!(found, [(HistogramLog::new(&counts).percentile_ns(50.0), 3)], "{latency_ns}");
            assert!((latency_ns..=latency_ns + latency_ns / 128).contains(&found[0].0), "{latency_ns}");
        }
        let mut counts = vec![0; HISTOGRAM_LEN];
        counts[histogram_index(u64::MAX)] = 1;
        assert_eq!(used_buckets(&counts).collect::<Vec<_>>(), [(u64::MAX, 1)]);
    }

    /// The index equals HdrHistogram's for 200,000 values.
    #[test]
    fn buckets_are_those_of_hdrhistogram() {
        let reference = Histogram::<u64>::new_with_bounds(1, VALUE_MAX, DIGITS).unwrap();
        assert_eq!(reference.distinct_values(), HISTOGRAM_LEN);
        let mut value: u64 = 1;
        for round in 0..200_000u64 {
            value = value.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(round | 1);
            let latency_ns = (value >> 28) >> (round % 36);
            let lowest = lowest_of(histogram_index(latency_ns));
            assert_eq!(lowest, reference.lowest_equivalent(latency_ns), "{latency_ns}");
        }
        assert_eq!(histogram_index(VALUE_MAX), HISTOGRAM_LEN - 1);
        assert_eq!(histogram_index(u64::MAX), HISTOGRAM_LEN - 1);
    }

    #[test]
    fn every_bucket_is_found_by_its_lowest_latency() {
        for index in 0..HISTOGRAM_LEN {
            assert_eq!(histogram_index(lowest_of(index)), index);
        }
    }

    #[test]
    fn a_sum_of_histograms_is_the_histogram_of_all_frames() {
        let counts = |seed: u64| (0..HISTOGRAM_LEN as u64).map(|index| index * seed % 11).collect::<Vec<_>>();
        let all: Vec<u64> = counts(3).iter().zip(counts(7)).map(|(one, other)| one + other).collect();
        let mut sum = HistogramLog::from_v2_base64(&HistogramLog::new(&counts(3)).v2_base64()).unwrap();
        sum.add(&HistogramLog::new(&counts(7)));
        assert_eq!(sum.v2_base64(), HistogramLog::new(&all).v2_base64());
        assert_eq!(HistogramLog::new(&all).v2_base64().len().max(V2_LEN_MAX), V2_LEN_MAX);
        assert!(HistogramLog::from_v2_base64("AAAA").is_err() && HistogramLog::from_v2_base64("?").is_err());
    }

    #[test]
    fn octaves_hold_every_latency_below_their_bound() {
        let mut counts = vec![0; HISTOGRAM_LEN];
        for latency_ns in [0, 63, 64, 127, 128, 1023, 1024, u64::MAX] {
            counts[histogram_index(latency_ns)] += 1;
        }
        assert_eq!(octaves(&counts, 6, 10), [2, 2, 1, 0, 1, 2]);
    }

    #[test]
    fn percentiles_are_those_of_the_recorded_values() {
        let mut counts = vec![0; HISTOGRAM_LEN];
        let mut exact = Histogram::<u64>::new_with_bounds(1, VALUE_MAX, DIGITS).unwrap();
        for number in 0..10_000u64 {
            let latency_ns = number * number;
            counts[histogram_index(latency_ns)] += 1;
            exact.record(latency_ns).unwrap();
        }
        let log = HistogramLog::new(&counts);
        assert_eq!(log.len(), 10_000);
        for percentile in PERCENTILES {
            assert_eq!(log.percentile_ns(percentile), exact.value_at_percentile(percentile));
        }
    }

    /// A reader of the exported histograms finds the percentiles of the report.
    #[test]
    fn exported_histograms_have_the_same_percentiles() {
        let mut counts = vec![0; HISTOGRAM_LEN];
        for number in 0..100_000u64 {
            counts[histogram_index(2000 + number * number % 1_000_003)] += 1;
        }
        let log = HistogramLog::new(&counts);
        let bytes = STANDARD.decode(log.v2_base64()).unwrap();
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!(read.len(), log.len());
        assert!(PERCENTILES.iter().all(|at| read.value_at_percentile(*at) == log.percentile_ns(*at)));
        let text = log.hgrm();
        let rows = text.lines().skip(2).take_while(|line| !line.starts_with('#'));
        let rows: Vec<Vec<f64>> = rows
            .map(|line| line.split_whitespace().map(|field| field.parse().expect(line)).collect())
            .collect();
        assert!(rows.len() > 20, "{text}");
        // The first row, 0 %, has the upper end of the lowest bucket.
        for row in &rows[1..] {
            let (value_ns, percentile) = ((row[0] * 1000.0).round() as u64, row[1] * 100.0);
            assert_eq!(value_ns, log.percentile_ns(percentile), "{percentile} %");
        }
        assert_eq!(rows.last().map(|row| row[2]), Some(100_000.0));
    }

    #[test]
    fn hgrm_file_has_the_columns_and_the_count() {
        let mut counts = vec![0; HISTOGRAM_LEN];
        counts[histogram_index(5000)] = 3;
        counts[histogram_index(9000)] = 1;
        let text = HistogramLog::new(&counts).hgrm();
        assert!(text.starts_with("       Value     Percentile TotalCount 1/(1-Percentile)\n\n"), "{text}");
        assert!(text.contains("Total count    =            4]\n"), "{text}");
        assert!(text.lines().any(|line| line.split_whitespace().nth(1) == Some("1.000000000000")), "{text}");
    }

    /// A header that names these bounds and this length of counts, and as many bytes of counts.
    fn forged(counts_len: u32, high: u64, digits: u32, counts: usize) -> String {
        use std::io::Write;
        let mut plain = V2_PLAIN.to_vec();
        plain.extend(counts_len.to_be_bytes());
        plain.extend(0_u32.to_be_bytes());
        plain.extend(digits.to_be_bytes());
        plain.extend(1_u64.to_be_bytes());
        plain.extend(high.to_be_bytes());
        plain.extend(1_f64.to_be_bytes());
        plain.resize(plain.len() + counts, 2);
        let mut zipped = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zipped.write_all(&plain).unwrap();
        let zipped = zipped.finish().unwrap();
        let mut bytes = V2_COMPRESSED.to_vec();
        bytes.extend((zipped.len() as u32).to_be_bytes());
        bytes.extend(zipped);
        STANDARD.encode(bytes)
    }

    #[test]
    fn a_histogram_takes_no_more_memory_than_it_has_bytes() {
        let refusal = |text: &str| HistogramLog::from_v2_base64(text).err().unwrap_or_default();
        let digits = u32::from(DIGITS);
        assert_eq!(HistogramLog::from_v2_base64(&forged(5, VALUE_MAX, digits, 5)).unwrap().len(), 5);
        let huge = forged(0x7fff_fff0, VALUE_MAX, digits, 1);
        assert_eq!(refusal(&huge), "a histogram that names 2147483632 bytes of counts, and has 1");
        assert!(refusal(&forged(1, u64::MAX >> 1, 5, 1)).starts_with("a histogram with other bounds"));
        let bomb = forged(2 << 20, VALUE_MAX, digits, 2 << 20);
        assert!(bomb.len() < V2_LEN_MAX);
        assert_eq!(refusal(&bomb), "a histogram of more than 1048576 bytes");
    }
}
