"""Runs the statements of a file of views, then each query of standard input, with DuckDB.

Queries are a list in JSON. Prints a list of rows for each, one line of JSON per query. The working
directory has the data set.
"""

import json
import sys

import duckdb

connection = duckdb.connect()
connection.execute("set threads = 2")
with open(sys.argv[1]) as views:
    connection.execute(views.read())
for query in json.load(sys.stdin):
    print(json.dumps(connection.execute(query).fetchall(), default=str))
