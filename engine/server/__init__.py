"""The engine over HTTP: OpenAI's protocol for answers, `/engine/*` for watching the batch."""
