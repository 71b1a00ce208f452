"""The one place that holds the version; setuptools and the reports read it from here."""

__version__ = "0.1.0"
