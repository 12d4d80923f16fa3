"""The files of a folder with a database of TVM's MetaSchedule, and the best log that an export lays beside them."""

from __future__ import annotations

WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"
BEST_LOG = "best.jsonl"
"""Line by line what the records are: TVM's say of a layer no more than a hash of its definition."""
