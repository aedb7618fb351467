"""The boards that can be named."""

from gateway.doctor.boards import BOARDS


def test_figures_make_sense() -> None:
    for name, board in BOARDS.items():
        assert board.name == name
        assert 1 << 28 < board.ram_bytes < 1 << 36
        assert board.endurance_bytes > 100 * board.disk_bytes
        assert 0.5 <= board.commit_ms <= 50
        assert 1 <= board.amplification <= 10
