"""Searches a simulated device with PyPI MLRsearch and prints one JSON object per goal.

Arguments: frames per second that the device passes, highest load, loss ratios.
"""

import json
import sys

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal


class CountCap(AbstractMeasurer):
    def __init__(self, cap):
        self.cap, self.trials, self.seconds = cap, 0, 0.0

    def measure(self, intended_duration, intended_load):
        frames = round(intended_duration * intended_load)
        self.trials += 1
        self.seconds += intended_duration
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=frames,
            forwarding_count=min(frames, round(self.cap * intended_duration)),
        )


cap, max_load, losses = float(sys.argv[1]), float(sys.argv[2]), [float(word) for word in sys.argv[3:]]
goals = [
    SearchGoal(
        loss_ratio=loss,
        exceed_ratio=0.5,
        relative_width=0.005,
        initial_trial_duration=1.0,
        final_trial_duration=1.0,
        duration_sum=21.0,
        preceding_targets=2,
        expansion_coefficient=2,
        fail_fast=False,
    )
    for loss in losses
]
config = Config(goals=goals, min_load=9001.0, max_load=max_load, search_duration_max=600.0, warmup_duration=None)
device = CountCap(cap)
results = MultipleLossRatioSearch(config=config).search(measurer=device, debug=lambda text: None)
for goal in goals:
    result = results[goal]
    print(
        json.dumps(
            {
                "lower_pps": float(result.relevant_lower_bound),
                "upper_pps": float(result.relevant_upper_bound),
                "conditional_pps": float(result.conditional_throughput),
                "trials": device.trials,
                "seconds": device.seconds,
            }
        )
    )
