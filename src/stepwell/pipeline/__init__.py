"""The walk of one request: `plan` decides, `runner` does, `flight` shares, `fill` stores."""
