import io
import json
import logging

from gateway.log import NOISE_KINDS, NOISE_LINES, NOISE_WINDOW_MS, RECENT_CHARS_MAX, RECENT_LINES, Log, LogHandler


def test_a_line_carries_its_level() -> None:
    stream = io.StringIO()
    log = Log(stream)
    log.info("one")
    log.warning("two")
    log.error("three")
    assert stream.getvalue() == "INFO one\nWARNING two\nERROR three\n"


def test_lines_below_the_level_are_left_out() -> None:
    stream = io.StringIO()
    log = Log(stream, "warning")
    log.info("one")
    log.noise("kind", "two")
    log.warning("three")
    assert stream.getvalue() == "WARNING three\n"


def test_a_peer_cannot_forge_a_line() -> None:
    stream = io.StringIO()
    Log(stream).info("client x\nERROR disk gone\x1b[2J")
    assert stream.getvalue() == "INFO client x?ERROR disk gone?[2J\n"


def test_a_flood_of_one_kind_ends_in_its_number() -> None:
    stream = io.StringIO()
    time_ms = 5
    log = Log(stream, clock=lambda: time_ms)
    for number in range(1000):
        log.noise("bad packet", f"bad packet {number}")
    log.noise("other", "other")
    lines = stream.getvalue().splitlines()
    assert len(lines) == NOISE_LINES + 1
    assert lines[-1] == "INFO other"
    time_ms = 5 + NOISE_WINDOW_MS - 1
    log.sweep()
    assert len(stream.getvalue().splitlines()) == NOISE_LINES + 1
    time_ms += 1
    log.sweep()
    assert stream.getvalue().splitlines()[-1] == f"INFO bad packet: {1000 - NOISE_LINES} more within 10 s"
    log.noise("bad packet", "bad packet again")
    assert stream.getvalue().splitlines()[-1] == "INFO bad packet again"


def test_new_kinds_do_not_get_around_the_brake() -> None:
    stream = io.StringIO()
    log = Log(stream)
    for number in range(1000):
        log.noise(f"kind {number}", f"line {number}")
    assert len(stream.getvalue().splitlines()) == NOISE_KINDS + NOISE_LINES
    log.flush()
    assert "of other kinds: " in stream.getvalue()


def test_what_comes_through_logging_is_taken_in() -> None:
    stream = io.StringIO()
    logger = logging.getLogger("test.log")
    logger.propagate = False
    handler = LogHandler(Log(stream))
    logger.addHandler(handler)
    for number in range(NOISE_LINES + 5):
        logger.warning("attempt %d failed", number)
    logger.info("not for the operator")
    try:
        raise ValueError("broken")
    except ValueError:
        logger.exception("a batch")
    logger.removeHandler(handler)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "WARNING attempt 0 failed"
    assert sum("attempt" in line for line in lines) == NOISE_LINES
    assert "ERROR a batch: ValueError: broken" in lines


def test_a_defect_comes_with_its_traceback() -> None:
    stream = io.StringIO()
    try:
        raise KeyError("x")
    except KeyError as e:
        Log(stream).defect("tick", e)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "ERROR tick: KeyError: 'x'"
    assert any("test_log.py" in line for line in lines)
    assert all(line.startswith("ERROR ") for line in lines)


def test_a_closed_stream_stops_nothing() -> None:
    stream = io.StringIO()
    log = Log(stream)
    stream.close()
    log.error("nobody reads this")


def test_json_is_one_object_a_line() -> None:
    stream = io.StringIO()
    log = Log(stream, form="json", wall=lambda: 1_700_000_000_123)
    log.warning("client ä\nERROR disk gone")
    log.noise("bad packet", "from x")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first == {"time": "2023-11-14T22:13:20.123Z", "level": "warning", "message": "client ä?ERROR disk gone"}
    assert (second["kind"], second["message"]) == ("bad packet", "from x")


def test_json_tells_a_defect_in_one_object() -> None:
    stream = io.StringIO()
    try:
        raise ValueError("odd")
    except ValueError as e:
        Log(stream, form="json").defect("tick", e)
    (line,) = stream.getvalue().splitlines()
    told = json.loads(line)
    assert (told["level"], told["message"], told["error"]) == ("error", "tick: ValueError: odd", "ValueError")
    assert "test_log.py" in told["traceback"]


def test_json_tells_how_many_lines_were_held_back() -> None:
    stream = io.StringIO()
    log = Log(stream, form="json")
    for _ in range(NOISE_LINES + 7):
        log.noise("bad packet", "x")
    log.flush()
    assert json.loads(stream.getvalue().splitlines()[-1])["held_back"] == 7


def test_the_last_lines_are_kept_for_who_asks() -> None:
    log = Log(io.StringIO(), "warning", wall=lambda: 7)
    log.info("not logged")
    for number in range(RECENT_LINES + 5):
        log.warning(f"line {number}")
    log.error("x" * 9999)
    lines = log.after(0)
    assert len(lines) == RECENT_LINES
    assert lines[0].text == "line 6"
    assert lines[-1] == (RECENT_LINES + 6, 7, "error", "x" * RECENT_CHARS_MAX)
    assert log.after(lines[-2].number) == lines[-1:]
    assert log.after(lines[-1].number) == []
