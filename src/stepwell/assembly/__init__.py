"""Settings, and the only place that knows concrete classes."""
