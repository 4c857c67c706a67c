"""The `llm` command line, told of our model as its users do it: in extra-openai-models.yaml."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    entry = (
        f"- model_id: ours\n  model_name: any\n  api_base: {sys.argv[1]}/v1\n  api_key_name: ours\n"
    )
    Path(folder, "extra-openai-models.yaml").write_text(entry)
    Path(folder, "keys.json").write_text('{"ours": "none"}')
    command = [str(Path(sys.executable).with_name("llm")), "-m", "ours", "Name one colour."]
    options = ["-o", "max_tokens", "12", "-o", "temperature", "0"]
    shown = subprocess.run(
        [*command, *options],
        env=os.environ | {"LLM_USER_PATH": folder},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
print(json.dumps({"text": shown.stdout}))
