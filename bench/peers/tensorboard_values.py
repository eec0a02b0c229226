#!/usr/bin/env python3
"""Compares what TensorBoard's own reader finds in a run with the run's records.

usage: tensorboard_values.py RUN    needs: pip install tensorboard==2.21.0
Exit code 1 if a value of metrics.jsonl or clips.jsonl is missing or differs by more than a float's rounding.
"""
import json
import pathlib
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator as PluginReader
from tensorboard.plugins.hparams import plugin_data_pb2

BESIDE = {"step", "kind", "epoch", "steps", "seconds", "time", "host"}  # of a record, no figures


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def expected_values(run):
    for record in records(run / "metrics.jsonl"):
        for name, value in record.items():
            if name not in BESIDE:
                yield f"{record['kind']}/{name}", record["step"], value
    for record in records(run / "clips.jsonl"):
        for name in "clip", "d_c", "lr_scale":
            yield f"{name}/{record['layer']}", record["step"], record[name]


def main():
    run = pathlib.Path(sys.argv[1])
    reader = EventAccumulator(str(run), size_guidance={"scalars": 0, "images": 0})
    reader.Reload()
    found = {tag: {event.step: event.value for event in reader.Scalars(tag)} for tag in reader.Tags()["scalars"]}
    count, wrong = 0, 0
    for tag, step, value in expected_values(run):
        count += 1
        shown = found.get(tag, {}).get(step)
        if shown is None or value is not None and abs(shown - value) > 1e-6 * max(1e-30, abs(value)):
            wrong += 1
            print(f"{tag} at step {step}: {shown}, not {value}")
    plugins = PluginReader(str(run))
    plugins.Reload()
    start = plugins.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    settings = plugin_data_pb2.HParamsPluginData.FromString(start).session_start_info.hparams
    print(f"{count} values, {wrong} of them missing or different; {len(settings)} settings; "
          f"pictures: {', '.join(reader.Tags()['images']) or 'none'}; "
          f"texts: {', '.join(plugins.PluginTagToContent('text'))}")
    sys.exit(wrong > 0)


main()
