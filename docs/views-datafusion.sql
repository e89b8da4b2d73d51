-- Views for DataFusion on the data set in the folder `packets`; change the two paths for another one.
-- In Python: `context.sql(statement)` for each statement, with `datafusion.SessionContext()`.

create external table packet_files stored as parquet partitioned by (run, host, device)
location 'packets/**/part-*.parquet';
create external table loss_files stored as parquet partitioned by (run)
location 'packets/**/loss-*.parquet';

create or replace view packets as
select *,
    to_timestamp_nanos(time_ns) as time,
    time_ns - time_ns % 1000000000 as second_ns,
    rtrim(regexp_replace(lpad(to_hex(eth_src), 12, '0'), '(..)', '${1}:', 'g'), ':') as src_mac,
    rtrim(regexp_replace(lpad(to_hex(eth_dst), 12, '0'), '(..)', '${1}:', 'g'), ':') as dst_mac,
    coalesce(
        (src4 / 16777216) || '.' || (src4 / 65536 % 256) || '.' || (src4 / 256 % 256) || '.' || (src4 % 256),
        rtrim(regexp_replace(encode(src6, 'hex'), '(....)', '${1}:', 'g'), ':')) as src,
    coalesce(
        (dst4 / 16777216) || '.' || (dst4 / 65536 % 256) || '.' || (dst4 / 256 % 256) || '.' || (dst4 % 256),
        rtrim(regexp_replace(encode(dst6, 'hex'), '(....)', '${1}:', 'g'), ':')) as dst
from packet_files;

create or replace view losses as
select *, from_ns - from_ns % 1000000000 as second_ns from loss_files;
