"""A parsed page for tests: XPath queries, with text on one line."""

from lxml import html


class Looked:
    """A parsed response."""

    def __init__(self, answer, status=200):
        assert answer.status_code == status, (answer.status_code, answer.text[:500])
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        self.answer = answer
        self.tree = html.fromstring(answer.text)

    def all(self, path):
        return self.tree.xpath(path)

    def one(self, path):
        (found,) = self.all(path)
        return found

    def texts(self, path):
        return [text_of(each) for each in self.all(path)]

    def text(self, path):
        return text_of(self.one(path))

    def row(self, job_id):
        """Return the text of one job's row, without text for screen readers."""
        return self.text(f"//*[@id='job-{job_id}']")

    def buttons(self, job_id):
        """Return the labels of a row's buttons and links."""
        found = self.all(f"//*[@id='job-{job_id}']//*[contains(@class, 'button')]")
        return [text_of(each).split(" demo")[0].split(" the result")[0] for each in found]


def text_of(element):
    return " ".join("".join(element.itertext()).split())
