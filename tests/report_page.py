"""A report in a browser, for tests: what it shows, clicks and keys."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.browsers import errors_of, prefer, resize

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement


class Page:
    """A page in the browser, wide and light unless a test changes it."""

    def __init__(self, browser: Chrome, path: Path, address: str = "") -> None:
        self.browser = browser
        resize(browser, 1440)
        prefer(browser, "light")
        browser.get("about:blank")
        errors_of(browser)  # of pages before
        browser.get(f"{path.as_uri()}{address}")

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements("css selector", selector)

    def one(self, selector: str) -> WebElement:
        return self.browser.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        return self.one(selector).text

    def texts(self, selector: str) -> list[str]:
        """Return what the elements of *selector* show, read at once as lists draw rows anew."""
        found: list[str] = self.browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map((each) => each.innerText)",
            selector,
        )
        return found

    def click(self, selector: str, text: str) -> None:
        """Click the first element of *selector* with this *text*.

        Lists draw their rows anew once they know their size, so a row that is gone is sought again.
        """
        from selenium.common.exceptions import StaleElementReferenceException

        for _ in range(5):
            with suppress(StaleElementReferenceException):
                self._click_once(selector, text)
                return
        self._click_once(selector, text)

    def _click_once(self, selector: str, text: str) -> None:
        found = [each for each in self.all(selector) if text in each.text]
        assert found, f"{text!r} is in none of {self.texts(selector)}"
        found[0].click()

    def names(self, stage: str, marked: str = "") -> list[str]:
        return self.texts(f'[data-stage="{stage}"] .row{marked} .name')

    def press(self, *keys: str) -> None:
        self.browser.switch_to.active_element.send_keys(*keys)

    def wait(self, is_reached: Callable[[], bool]) -> None:
        """Wait until the page has come where the browser leads it."""
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self.browser, 20).until(lambda _: is_reached())

    def width_beyond_sight(self) -> int:
        wide: int = self.browser.execute_script(
            "const page = document.documentElement; return page.scrollWidth - page.clientWidth"
        )
        return wide

    def require_no_errors(self) -> None:
        assert errors_of(self.browser) == []


def key(name: str) -> str:
    from selenium.webdriver.common.keys import Keys

    found: str = getattr(Keys, name)
    return found
