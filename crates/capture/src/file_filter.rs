//! Filters of packets that are read from files, which may have several link types.

use crate::CaptureError;
use crate::backend::filter::compile;
use crate::options::SNAPLEN_WHOLE;
use ::filter::Classic;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const LINK_TYPE_ETHERNET: u16 = 1;
const LINK_TYPE_RADIOTAP: u16 = 127;

/// An expression of pcap-filter(7), compiled once for each link type of the file.
#[derive(Debug)]
pub struct FileFilter {
    expression: String,
    interrupted: Arc<AtomicBool>,
    programs: Vec<(u16, Classic)>,
}

impl FileFilter {
    /// Compiles the expression for Ethernet, or for 802.11 if it has no meaning on Ethernet.
    ///
    /// # Errors
    /// [`CaptureError::NoFilterCompiler`], or what is wrong with the expression.
    pub fn new(expression: &str, interrupted: Arc<AtomicBool>) -> Result<Self, CaptureError> {
        let mut filter = Self { expression: expression.to_owned(), interrupted, programs: Vec::new() };
        match filter.program(LINK_TYPE_ETHERNET) {
            Ok(_) => {}
            Err(why @ CaptureError::Filter { .. }) => {
                filter.program(LINK_TYPE_RADIOTAP).map_err(|_| why)?;
            }
            Err(why) => return Err(why),
        }
        Ok(filter)
    }

    /// True if the filter accepts a packet of `frame_len` bytes, of which the file has `captured`.
    ///
    /// # Errors
    /// When the expression has no meaning for the link type.
    pub fn accepts(&mut self, link_type: u16, captured: &[u8], frame_len: u32) -> Result<bool, CaptureError> {
        Ok(self.program(link_type)?.run_captured(captured, frame_len) > 0)
    }

    fn program(&mut self, link_type: u16) -> Result<&Classic, CaptureError> {
        let known = self.programs.iter().position(|(of, _)| *of == link_type);
        let place = match known {
            Some(place) => place,
            None => {
                let program = compile(&self.expression, link_type, SNAPLEN_WHOLE, &self.interrupted)?;
                if program.asks_for_device() {
                    return Err(CaptureError::FilterOfFile { expression: self.expression.clone() });
                }
                self.programs.push((link_type, program));
                self.programs.len() - 1
            }
        };
        Ok(&self.programs[place].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter; `None` without libpcap, where the calling test is skipped.
    fn filter(expression: &str) -> Option<FileFilter> {
        match FileFilter::new(expression, Arc::default()) {
            Err(CaptureError::NoFilterCompiler { reason }) => {
                testkit::skip(format_args!("needs libpcap: {reason}"));
                None
            }
            made => Some(made.unwrap()),
        }
    }

    #[test]
    fn a_filter_is_compiled_for_the_link_type_of_each_packet() {
        let Some(mut filter) = filter("udp") else { return };
        let mut ip = [0; 28];
        (ip[0], ip[9]) = (0x45, 17);
        let ethernet = [&[0; 12][..], &[8, 0], &ip].concat();
        for (link_type, packet) in [(1, &ethernet[..]), (101, &ip), (228, &ip)] {
            assert!(filter.accepts(link_type, packet, packet.len() as u32).unwrap(), "{link_type}");
        }
        ip[9] = 6;
        assert!(!filter.accepts(101, &ip, 28).unwrap());
    }

    #[test]
    fn lengths_are_those_on_the_link_also_of_cut_packets() {
        let Some(mut filter) = filter("greater 1000") else { return };
        assert!(filter.accepts(1, &[0; 96], 1000).unwrap());
        assert!(!filter.accepts(1, &[0; 96], 999).unwrap());
    }

    #[test]
    fn an_expression_of_802_11_is_accepted_and_nonsense_is_not() {
        if filter("type mgt").is_some() {
            assert!(matches!(
                FileFilter::new("udp prot 9", Arc::default()),
                Err(CaptureError::Filter { .. })
            ));
        }
    }
}
