//! pcapng blocks to bytes and back, over any Read and Write.
