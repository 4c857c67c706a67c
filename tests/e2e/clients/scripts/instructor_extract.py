"""instructor, in JSON-schema mode and in tools mode."""

import json
import sys
from typing import Literal

import instructor
import openai
from pydantic import BaseModel


class Weather(BaseModel):
    city: Literal["Oslo", "Rome"]
    raining: bool


found = []
for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS):
    client = openai.OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none")
    weather = instructor.from_openai(client, mode=mode).chat.completions.create(
        model="any",
        response_model=Weather,
        messages=[{"role": "user", "content": "It is raining in Oslo."}],
        max_tokens=100,
        max_retries=0,
    )
    found.append(weather.city)
print(json.dumps({"cities": found}))
