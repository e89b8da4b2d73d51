//! The pktgen language: text to commands to configuration, and back to the text of the control files.
