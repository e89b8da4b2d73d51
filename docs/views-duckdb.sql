-- Views for DuckDB on the data set in the folder `packets`; change the two paths for another one.
-- duckdb -init docs/views-duckdb.sql

create or replace macro ip4(address) as
    (address >> 24) || '.' || (address >> 16 & 255) || '.' || (address >> 8 & 255) || '.' || (address & 255);
create or replace macro hex_groups(digits, size) as
    array_to_string([digits[1 + size * i : size * (i + 1)] for i in range(length(digits) // size)], ':');
create or replace macro ip6(address) as hex_groups(lower(hex(address)), 4);
create or replace macro mac(address) as hex_groups(printf('%012x', address), 2);

create or replace view packets as
select *,
    make_timestamp_ns(time_ns) as time,
    time_ns - time_ns % 1000000000 as second_ns,
    mac(eth_src) as src_mac,
    mac(eth_dst) as dst_mac,
    coalesce(ip4(src4), ip6(src6)) as src,
    coalesce(ip4(dst4), ip6(dst6)) as dst
from read_parquet('packets/**/part-*.parquet', hive_partitioning = true);

create or replace view losses as
select *, from_ns - from_ns % 1000000000 as second_ns
from read_parquet('packets/**/loss-*.parquet', hive_partitioning = true);

-- The reports of captures, for exact accounts: received = rows + filtered + after_limit + lost.
create or replace view captures as
select distinct decode(value)::json as report
from parquet_kv_metadata('packets/**/loss-*.parquet')
where decode(key) = 'wirerate.capture';
