"""An S3 server on the loopback interface with an empty bucket, for tests.

Prints its URL. Then it answers each line of standard input with one line of JSON: `names`, the
objects and the uploads that are not complete; `copy FOLDER`, which writes all objects into a folder.
It ends with the end of its input.
"""

import json
import os
import sys

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "bucket"

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
url = "http://%s:%d" % server.get_host_and_port()
client = boto3.client(
    "s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="secret"
)
client.create_bucket(Bucket=BUCKET)
print(json.dumps(url), flush=True)
for line in sys.stdin:
    names = [entry["Key"] for entry in client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    command, _, folder = line.strip().partition(" ")
    if command == "copy":
        for name in names:
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            client.download_file(BUCKET, name, path)
    uploads = client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
    print(json.dumps([names, [upload["Key"] for upload in uploads]]), flush=True)
server.stop()
