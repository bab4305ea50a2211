# Reads a file of TestPython with PyArrow and with DuckDB, and checks its columns.
import sys
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

path = sys.argv[1]
f = pq.ParquetFile(path)
assert f.metadata.num_row_groups == 2, f.metadata
t = f.read()
assert t.schema.field("began").type == pa.timestamp("ns", tz="UTC"), t.schema
assert t.schema.field("cost").type == pa.decimal128(18, 9), t.schema
for name, kind in {"id": pa.string(), "took_seconds": pa.float64(), "stream": pa.bool_(), "input": pa.int64()}.items():
    assert t.schema.field(name).type == kind, t.schema
n = t.num_rows
assert t.column("input").to_pylist() == list(range(n))
assert t.column("cost").null_count == n // 2
assert t.column("cost")[0].as_py() == Decimal("1.23456789")
assert t.column("model")[1].as_py() == 'm,"x"\ny'
assert t.column("began")[7].value == 1794963723456789019, t.column("began")[7]
assert set(t.column("stream").to_pylist()) == {True}

d = duckdb.sql(f"SELECT count(*), sum(input), sum(cost), count(cost), min(epoch_ns(began)) FROM read_parquet('{path}')").fetchall()[0]
assert d == (n, n * (n - 1) // 2, Decimal("1.23456789") * (n - n // 2), n - n // 2, 1794963723456789012), d
print(n, "rows")
