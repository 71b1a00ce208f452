from unittest.mock import MagicMock

figure, subplot, show, savefig = MagicMock(), MagicMock(), MagicMock(), MagicMock()
