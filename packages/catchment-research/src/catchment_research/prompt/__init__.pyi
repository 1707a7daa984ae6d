from catchment_research.prompt.causal import TransformersLM as TransformersLM
from catchment_research.prompt.controller import (
    EdgeController as EdgeController,
    Example as Example,
    Projection as Projection,
)
from catchment_research.prompt.exchange import LanguageServer as LanguageServer
from catchment_research.prompt.language import (
    Answers as Answers,
    FrozenLM as FrozenLM,
    SurrogateLM as SurrogateLM,
    find_model as find_model,
)
from catchment_research.prompt.prompt_model import (
    PromptModel as PromptModel,
    RecordingPrompts as RecordingPrompts,
    prompt_model_of as prompt_model_of,
)
from catchment_research.prompt.split import (
    Controlled as Controlled,
    PromptNoise as PromptNoise,
    PromptTraining as PromptTraining,
    Prompter as Prompter,
    closed_form_start as closed_form_start,
    label_targets as label_targets,
)

# For the other packages and the tests; may change without notice.
from catchment_research.prompt.exchange import (
    Answer as Answer,
    Question as Question,
    Traffic as Traffic,
    as_tokens as as_tokens,
    said_from_bytes as said_from_bytes,
    said_to_bytes as said_to_bytes,
)
from catchment_research.prompt.language import (
    is_model as is_model,
    losses as losses,
    softmax as softmax,
)
from catchment_research.prompt.prompt_model import labeled as labeled, served as served
from catchment_research.prompt.split import values_of as values_of

__all__ = [
    "Answers",
    "Controlled",
    "EdgeController",
    "Example",
    "FrozenLM",
    "LanguageServer",
    "Projection",
    "PromptModel",
    "PromptNoise",
    "PromptTraining",
    "Prompter",
    "RecordingPrompts",
    "SurrogateLM",
    "TransformersLM",
    "closed_form_start",
    "find_model",
    "label_targets",
    "prompt_model_of",
]
