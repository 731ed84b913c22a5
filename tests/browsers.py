"""A browser without a window, for tests of pages; where there is none, they are skipped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",
)
"""A browser that asks for nothing and draws without a screen."""


@contextmanager
def headless(folder: Path) -> Iterator[Chrome]:
    """Yield a browser whose profile lies in *folder*; skip the test if there is none."""
    webdriver: Any = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("there is no Chromium with its chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in (*QUIET, f"--user-data-dir={folder}"):
        options.add_argument(argument)
    service = webdriver.ChromeService(driver)
    browser = webdriver.Chrome(options=options, service=service)
    try:
        yield browser
    finally:
        browser.quit()


_AFTER_THE_RESIZE = """
const [width, height, done] = arguments;
const drawn = () => setTimeout(done, 150);  // reports wait 100 ms after the event
const look = () => requestAnimationFrame(
    innerWidth === width && innerHeight === height ? () => requestAnimationFrame(drawn) : look);
look();
"""


def resize(browser: Chrome, width: int, height: int = 900) -> None:
    """Make the page so many pixels wide and high, and wait until it is drawn for its new size."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_async_script(_AFTER_THE_RESIZE, width, height)


def prefer(browser: Chrome, scheme: str) -> None:
    """Let the page be asked for *scheme*, "light" or "dark"."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def errors_of(browser: Chrome) -> list[str]:
    """Return the errors that the browser has logged since it was asked last."""
    asked: Any = browser
    return [each["message"] for each in asked.get_log("browser") if each["level"] == "SEVERE"]
