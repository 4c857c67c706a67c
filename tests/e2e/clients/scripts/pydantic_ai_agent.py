"""pydantic-ai: an agent whose answer is an object, by way of its output tool."""

import json
import sys
from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class Weather(BaseModel):
    city: Literal["Oslo", "Rome"]
    raining: bool


provider = OpenAIProvider(base_url=f"{sys.argv[1]}/v1", api_key="none")
agent = Agent(OpenAIChatModel("any", provider=provider), output_type=Weather)
print(json.dumps({"city": agent.run_sync("It is raining in Oslo.").output.city}))
