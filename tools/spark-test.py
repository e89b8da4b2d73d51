"""DataFusion and Spark answer the questions of docs/parquet.md as DuckDB does; Spark also when a
worker dies.

    spark-test.py WIRERATE

WIRERATE is the program. It writes frames, and exports them as data sets. A master and three workers
of Spark run on the loopback interface until the end. During one query, a worker and its executor
are killed. `make spark` installs what this needs.
"""

import decimal
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import datafusion
import duckdb
import pyspark
from pyspark.sql import SparkSession

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUNS = 6
FRAMES = 100_000
WORKERS = 3
# How long a program of Spark may take to start.
START_S = 120


def export(program, folder):
    """Data sets of frames of many flows: a file for each task of Spark."""
    for run in range(RUNS):
        frames = f"{folder}/frames.pcapng"
        send = f"send lo --dst 198.18.0.0/15 --flows 50000 --flow-len 4 --size 60-200 --count {FRAMES} --seed {run + 1}"
        subprocess.run([program, *send.split(), f"--dry-run={FRAMES}", "--write", frames], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([program, "export", frames, "-o", f"{folder}/packets", "--run", f"run-{run}", "--host",
                        "lab"], check=True, stdout=subprocess.DEVNULL)
        os.remove(frames)


def start(folder, name, arguments, pattern):
    """Starts a program of Spark; returns it and what the pattern finds in its log."""
    path = os.path.join(folder, name + ".log")
    command = [os.path.join(os.path.dirname(pyspark.__file__), "bin", "spark-class"), *arguments]
    with open(path, "w") as log:
        # Its executors are of the same group, so that they are killed with it.
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with open(path) as log:
            text = log.read()
        if found := re.search(pattern, text):
            return process, found[0]
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    sys.exit(f"{name} did not start:\n{text}")


def values(rows):
    """Rows whose numbers are of one type."""
    def value(cell):
        is_whole = isinstance(cell, (decimal.Decimal, float)) and cell == int(cell)
        return int(cell) if is_whole else cell
    return [tuple(value(cell) for cell in row) for row in rows]


def statements(name):
    with open(os.path.join(ROOT, "docs", name)) as file:
        text = re.sub(r"(?m)^--.*$", "", file.read())
    return [statement for statement in text.split(";") if statement.strip()]


def same(rows, expected):
    """True for the same rows; engines interpolate percentiles with a different number of digits."""
    def same_cell(cell, other):
        if isinstance(cell, float) and isinstance(other, (int, float)):
            return math.isclose(cell, other, rel_tol=1e-6)
        return cell == other
    return len(rows) == len(expected) and all(
        len(row) == len(other) and all(map(same_cell, row, other)) for row, other in zip(rows, expected))


def tell(engine, number, rows, expected, start_s):
    """Prints whether the answer to a question is that of DuckDB; returns it."""
    is_same = same(rows, expected)
    print(f"question {number}, {engine}: {'same' if is_same else 'DIFFERENT'}, {len(rows)} rows, "
          f"{time.monotonic() - start_s:.1f} s", flush=True)
    if not is_same:
        print(f"  DuckDB: {expected[:3]}\n  {engine}: {rows[:3]}")
    return is_same


def ask_datafusion(queries, expected):
    """True if DataFusion answers all questions as expected."""
    context = datafusion.SessionContext()
    for statement in statements("views-datafusion.sql"):
        context.sql(statement)
    answers_are_same = []
    for number, (query, rows) in enumerate(zip(queries, expected), 1):
        start_s = time.monotonic()
        batches = context.sql(query).collect()
        answer = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
        answers_are_same.append(tell("DataFusion", number, values(answer), rows, start_s))
    return all(answers_are_same)


def killed_in_query(spark, query, worker):
    """Runs a query and kills a worker when some of its tasks are done and others are running."""
    tracker, killed_s = spark.sparkContext.statusTracker(), []
    start_s, is_done = time.monotonic(), threading.Event()

    def kill():
        while not is_done.is_set():
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if any(stage and stage.numCompletedTasks > 0 and stage.numActiveTasks > 1 for stage in stages):
                os.killpg(worker.pid, signal.SIGKILL)
                killed_s.append(time.monotonic() - start_s)
                return
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    rows = spark.sql(query).collect()
    end_s = time.monotonic() - start_s
    is_done.set()
    killer.join()
    if not killed_s:
        sys.exit("the query ended before a worker could be killed")
    return rows, killed_s[0], end_s


def main(program):
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", SPARK_PUBLIC_DNS="127.0.0.1")
    with open(os.path.join(ROOT, "docs", "parquet.md")) as page:
        queries = re.findall(r"```sql\n(.*?)```", page.read(), re.DOTALL)
    assert len(queries) == 10
    with tempfile.TemporaryDirectory(prefix="wirerate-spark-") as folder:
        export(program, folder)
        os.chdir(folder)
        os.environ["SPARK_LOCAL_DIRS"] = folder
        duck = duckdb.connect()
        for statement in statements("views-duckdb.sql"):
            duck.execute(statement)
        stored = duck.execute("select count(*) from packets").fetchall()[0]
        assert stored == (RUNS * FRAMES,), stored
        expected = [values(duck.execute(query).fetchall()) for query in queries]
        is_same = ask_datafusion(queries, expected)
        processes = []
        try:
            main_class = "org.apache.spark.deploy."
            arguments = [main_class + "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            master, url = start(folder, "master", arguments, r"spark://127\.0\.0\.1:\d+")
            processes.append(master)
            for number in range(WORKERS):
                arguments = [main_class + "worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1",
                             "--memory", "1g", "--work-dir", f"{folder}/work-{number}", url]
                processes.append(start(folder, f"worker-{number}", arguments, "Successfully registered")[0])
            is_same &= ask_spark(url, queries, expected, processes[1])
        finally:
            for process in processes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    sys.exit(0 if is_same else 1)


def ask_spark(url, queries, expected, worker):
    """True if Spark answers all questions as expected, the first also while a worker dies."""
    settings = {"spark.executor.memory": "800m", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
                "spark.sql.shuffle.partitions": "12", "spark.sql.files.openCostInBytes": "128m",
                "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.master(url)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for statement in statements("views-spark.sql"):
        spark.sql(statement)
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus
    deadline = time.monotonic() + START_S
    while executors().size() <= WORKERS:
        if time.monotonic() > deadline:
            sys.exit("not all workers have an executor")
        time.sleep(0.2)
    answers_are_same = []
    for number, (query, rows) in enumerate(zip(queries, expected), 1):
        start_s = time.monotonic()
        answer = values(spark.sql(query).collect())
        answers_are_same.append(tell("Spark", number, answer, rows, start_s))
    rows, killed_s, end_s = killed_in_query(spark, queries[0], worker)
    is_same = same(values(rows), expected[0])
    print(f"question 1, a worker killed after {killed_s:.1f} s: {'same' if is_same else 'DIFFERENT'}, {end_s:.1f} s")
    spark.stop()
    return is_same and all(answers_are_same)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: spark-test.py WIRERATE")
    main(os.path.abspath(sys.argv[1]))
