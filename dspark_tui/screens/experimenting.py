"""The way from the workbench to experiments and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dspark_tui.screens.desk import Desk

if TYPE_CHECKING:
    from dspark_tui.experiments.trial import Trial
    from dspark_tui.screens.experiment_grid import ExperimentGrid


class Experimenting(Desk):
    """Keeps the experiment that was started last, so that one can go away while it runs."""

    trial: Trial | None = None
    _drafted = ""
    """What was in the composer when that was started."""

    @property
    def experiment_runs(self) -> bool:
        return self.trial is not None and self.trial.running

    def action_experiment(self) -> None:
        draft, trial = self.composer.prompt, self.trial
        if trial is None or (trial.complete and draft.strip() and draft != self._drafted):
            self._set_up()
        else:
            self._show(trial)

    def _set_up(self) -> None:
        from dspark_tui.screens.experiment import ExperimentForm

        panes = self.session.recipients()
        link = self.engines.of(panes[0].params.engine)
        form = ExperimentForm(self.composer.prompt, panes, link)
        self.app.push_screen(form, self._start)

    def _start(self, trial: Trial | None) -> None:
        if trial is not None:
            self.trial, self._drafted = trial, self.composer.prompt
            self._show(trial).action_run()

    def _show(self, trial: Trial) -> ExperimentGrid:
        from dspark_tui.screens.experiment_grid import ExperimentGrid

        def shown(another: bool | None) -> None:
            if another:
                self._set_up()
            elif trial.running:
                self.say(f"the experiment goes on; {self.key('experiment')} shows it")

        grid = ExperimentGrid(trial, self.glyphs)
        self.app.push_screen(grid, shown)
        return grid
