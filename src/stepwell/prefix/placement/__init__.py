"""Where a prompt goes: what each replica of a model server probably holds, and who is free."""
