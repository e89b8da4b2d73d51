"""PyPI MLRsearch with `wirerate measure` as its measurer: prints the bounds as one JSON object.

Arguments: wirerate, sending and receiving DEV[@NETNS], lowest load, highest load, duration of a
trial and duration sum in seconds, options of send.
"""

import json
import subprocess
import sys

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

wirerate, sender, receiver = sys.argv[1:4]
min_load, max_load, trial_duration, duration_sum = (float(word) for word in sys.argv[4:8])
options = sys.argv[8:]


class Wirerate(AbstractMeasurer):
    trials = 0
    lost = 0

    def measure(self, intended_duration, intended_load):
        frames = round(intended_duration * intended_load)
        words = ["measure", "--tx", sender, "--rx", receiver, "--json", "--", *options]
        words += ["--count", str(frames), "--pps", str(round(intended_load))]
        # The exit code is 1 if a frame is lost.
        said = subprocess.run([wirerate, *words], stdout=subprocess.PIPE, text=True).stdout
        received = json.loads(said.splitlines()[-1])
        self.trials += 1
        self.lost += frames - received["unique"]
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=frames,
            forwarding_count=received["unique"],
        )


goal = SearchGoal(
    loss_ratio=0.0,
    exceed_ratio=0.5,
    relative_width=0.005,
    initial_trial_duration=trial_duration,
    final_trial_duration=trial_duration,
    duration_sum=duration_sum,
    preceding_targets=2,
    expansion_coefficient=2,
    fail_fast=False,
)
config = Config(
    goals=[goal], min_load=min_load, max_load=max_load, search_duration_max=600.0, warmup_duration=None
)
measurer = Wirerate()
result = MultipleLossRatioSearch(config=config).search(measurer=measurer, debug=lambda text: None)[goal]
bounds = {"lower_pps": result.relevant_lower_bound, "upper_pps": result.relevant_upper_bound}
goals = [{name: bound and float(bound) for name, bound in bounds.items()}]
print(json.dumps({"goals": goals, "trials": measurer.trials, "lost": measurer.lost}))
