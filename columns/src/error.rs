//! Errors of this crate.

use parquet::errors::ParquetError;

/// Why a file cannot be read as packets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnsError {
    /// No Parquet file, or a damaged one.
    #[error("it is no Parquet file, or a damaged one")]
    Damaged(#[from] ParquetError),
    /// A Parquet file of another schema.
    #[error("its rows are not packets: the footer has no wirerate.schema {}", crate::PACKET_SCHEMA)]
    NotPackets,
    /// A file written with `--no-bytes`.
    #[error("it has no packet bytes (column raw)")]
    NoBytes,
    /// Columns of different lengths.
    #[error("its columns differ in length")]
    Rows,
    /// A footer that this crate did not write.
    #[error("its footer is damaged")]
    Footer(#[from] serde_json::Error),
}
