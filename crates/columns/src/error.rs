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
    /// A footer with places outside of the file.
    #[error("its footer is damaged: {what} of column {column} in row group {group} cannot be {found}")]
    Place {
        /// Number of the row group.
        group: usize,
        /// Name of the column.
        column: String,
        /// The value.
        what: &'static str,
        /// What was found.
        found: i64,
    },
    /// The Parquet library panicked.
    #[error("it is damaged: {0}")]
    Panicked(String),
    /// A footer that this crate did not write.
    #[error("its footer is damaged")]
    Footer(#[from] serde_json::Error),
}
