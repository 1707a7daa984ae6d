"""Reservoir prompts: what a sensor's reservoir has seen steers a frozen language model.

Only the small matrix between the reservoir and the prompt is trained. `SurrogateLM` stands in for a
language model where none is at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.prompt.causal import TransformersLM as TransformersLM
    from catchment.prompt.controller import EdgeController as EdgeController
    from catchment.prompt.controller import Example as Example
    from catchment.prompt.controller import Projection as Projection
    from catchment.prompt.exchange import LanguageServer as LanguageServer
    from catchment.prompt.language import Answers as Answers
    from catchment.prompt.language import FrozenLM as FrozenLM
    from catchment.prompt.language import find_model as find_model
    from catchment.prompt.prompt_model import PromptModel as PromptModel
    from catchment.prompt.prompt_model import RecordingPrompts as RecordingPrompts
    from catchment.prompt.prompter import Prompter as Prompter
    from catchment.prompt.remote import RemoteServer as RemoteServer
    from catchment.prompt.remote import serve as serve
    from catchment.prompt.split import Controlled as Controlled
    from catchment.prompt.split import PromptTraining as PromptTraining
    from catchment.prompt.start import closed_form_start as closed_form_start
    from catchment.prompt.start import label_targets as label_targets
    from catchment.prompt.start import ridge_data as ridge_data
    from catchment.prompt.start import values_of as values_of
    from catchment.prompt.surrogate import SurrogateLM as SurrogateLM

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "causal": ["TransformersLM"],
        "controller": ["EdgeController", "Example", "Projection"],
        "exchange": ["LanguageServer"],
        "language": ["Answers", "FrozenLM", "find_model"],
        "prompt_model": ["PromptModel", "RecordingPrompts"],
        "prompter": ["Prompter"],
        "remote": ["RemoteServer", "serve"],
        "split": ["Controlled", "PromptTraining"],
        "start": ["closed_form_start", "label_targets", "ridge_data", "values_of"],
        "surrogate": ["SurrogateLM"],
    },
)
