"""docs/space-time.md says what docs/fields-run.json holds."""

import json

from benchmarks import fields
from benchmarks.blocks import block


def test_the_table_is_that_of_the_stored_run():
    run = json.loads(fields.STORED.read_text()) if fields.STORED.exists() else None
    assert block("space-time.md", "fields") == (fields.page(run) if run else "")
