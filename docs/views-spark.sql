-- Views for Spark on the data set in the folder `packets`; change the two paths for another one.
-- spark-sql -i docs/views-spark.sql

create or replace temporary view packet_files
using parquet options (path 'packets', pathGlobFilter 'part-*.parquet');
create or replace temporary view loss_files
using parquet options (path 'packets', pathGlobFilter 'loss-*.parquet');

create or replace temporary view packets as
select *,
    timestamp_micros(time_ns div 1000) as time,
    time_ns - time_ns % 1000000000 as second_ns,
    regexp_replace(lpad(lower(hex(eth_src)), 12, '0'), '(..)(?!$)', '$1:') as src_mac,
    regexp_replace(lpad(lower(hex(eth_dst)), 12, '0'), '(..)(?!$)', '$1:') as dst_mac,
    coalesce(
        concat(src4 div 16777216, '.', src4 div 65536 % 256, '.', src4 div 256 % 256, '.', src4 % 256),
        regexp_replace(lower(hex(src6)), '(....)(?!$)', '$1:')) as src,
    coalesce(
        concat(dst4 div 16777216, '.', dst4 div 65536 % 256, '.', dst4 div 256 % 256, '.', dst4 % 256),
        regexp_replace(lower(hex(dst6)), '(....)(?!$)', '$1:')) as dst
from packet_files;

create or replace temporary view losses as
select *, from_ns - from_ns % 1000000000 as second_ns from loss_files;
