"""The view: trainings as figures, pages and boards.

It shows what `kit` recorded and decides nothing; `kit` never imports it.
"""

from widgets.board.board import TrafficBoard as TrafficBoard
from widgets.prediction import Prediction as Prediction
from widgets.report import Section as Section
from widgets.report import write_report as write_report
from widgets.stepping.stepper import ExchangeStepper as ExchangeStepper
from widgets.stepping.stepper import RingStepper as RingStepper
from widgets.stepping.stepper import ServerStepper as ServerStepper

__all__ = [
    "ExchangeStepper",
    "Prediction",
    "RingStepper",
    "Section",
    "ServerStepper",
    "TrafficBoard",
    "write_report",
]
