"""Elements of a page of HTML: every text is escaped, because names of runs come from anywhere."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import NewType

Html = NewType("Html", str)
"""Text that is HTML already."""

_UNREADABLE = re.compile(
    "[^\\t\\n\\r -\\x7e\\xa0-\\ud7ff\\ue000-\\ufdcf\\ufdf0-\\ufffd\\U00010000-\\U0010ffff]"
)
"""Control characters, halves of characters, and what no document may hold."""

_WITHOUT_END = frozenset(("meta", "br", "img"))


def text(value: str) -> Html:
    """Return a text as HTML."""
    return Html(html.escape(_UNREADABLE.sub("\N{REPLACEMENT CHARACTER}", value)))


def element(name: str, /, *content: Html, **attributes: str) -> Html:
    """Return an element; the attribute `class_` is `class`, and `http_equiv` is `http-equiv`."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value
    )
    if name in _WITHOUT_END:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{''.join(content)}</{name}>")


def said(name: str, words: str, /, **attributes: str) -> Html:
    """Return an element that holds a text."""
    return element(name, text(words), **attributes)


def joined(parts: Iterable[Html]) -> Html:
    """Return the parts, one after the other."""
    return Html("\n".join(part for part in parts if part))


def section(title: str, *content: Html) -> Html:
    """Return a part of the page under a title; nothing if it has no content."""
    inside = joined(content)
    return element("section", said("h2", title), inside) if inside else Html("")


def table(head: Iterable[str], rows: Iterable[Iterable[Html]], kind: str = "") -> Html:
    """Return a table, of cells that `cell` made; nothing if it has no row."""
    lines = [element("tr", *row) for row in rows]
    if not lines:
        return Html("")
    titles = [said("th", each, scope="col") for each in head]
    top = element("thead", element("tr", *titles)) if titles else Html("")
    inside = element("table", top, element("tbody", *lines), class_=kind)
    return element("div", inside, class_="wide")


def cell(words: str, *, differs: bool = False, number: bool = False, more: Html = Html("")) -> Html:
    """Return a cell of a table."""
    names = " ".join(filter(None, ("differs" * differs, "number" * number)))
    return element("td", text(words), more, class_=names)


def row_title(words: str) -> Html:
    """Return the cell that names a row."""
    return said("th", words, scope="row")


def details(title: str, *content: Html) -> Html:
    """Return what is folded until it is wanted; nothing if it has no content."""
    inside = joined(content)
    return element("details", said("summary", title), inside) if inside else Html("")


def page(title: str, body: Html) -> Html:
    """Return the whole document. A browser that reads it loads and runs nothing."""
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
        "form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        said("title", title),
        element("style", Html(_STYLE)),
    )
    return Html(f"<!DOCTYPE html>\n{element('html', head, element('body', body), lang='en')}\n")


_LIGHT = """--bg:#f3f5f8;--card:#ffffff;--card2:#eef1f5;--line:#d9dee5;--text:#1c2128;
--muted:#5a6573;--ok:#1a7a35;--warn:#8f5f00;--bad:#c9302c;--done:#0f7268;
--c0:#0b63ce;--c1:#b85000;--c2:#13805a;--c3:#a436a4;--c4:#8a6d00;--c5:#c9302c;--c6:#6a4fd0;
--c7:#0f778a;"""
_DARK = """--bg:#0e1116;--card:#161b22;--card2:#1d232c;--line:#272e39;--text:#e6edf3;
--muted:#8d98a7;--ok:#3fb950;--warn:#d8a13a;--bad:#f47067;--done:#4cc2b4;
--c0:#58a6ff;--c1:#ff9d4d;--c2:#41c98e;--c3:#e07be0;--c4:#e5c453;--c5:#f47067;--c6:#a08cff;
--c7:#5cc8d8;"""
COLOURS = 8
"""Colours of curves, `--c0` and on."""

_STYLE = f"""
:root{{color-scheme:light dark;{_LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;max-width:1280px;padding:28px 24px 48px;background:var(--bg);
color:var(--text);font:14px/1.45 Inter,'DejaVu Sans',Arial,Helvetica,sans-serif}}
h1{{font-size:24px;margin:0 0 4px;overflow-wrap:anywhere}}
h2{{font-size:16px;margin:28px 0 10px}}
h3{{font-size:14px;margin:18px 0 8px;overflow-wrap:anywhere}}
p{{margin:4px 0;overflow-wrap:anywhere}}
.muted,figcaption,.default{{color:var(--muted)}}
.default{{font-size:12px;margin-left:10px}}
.note{{white-space:pre-wrap;border-left:3px solid var(--line);padding-left:12px;margin:10px 0}}
.state{{font-weight:600}} .finished{{color:var(--done)}} .failed,.interrupted{{color:var(--bad)}}
.stopped{{color:var(--warn)}} .running,.best{{color:var(--ok)}}
.tag{{background:var(--card2);border:1px solid var(--line);border-radius:9px;padding:1px 9px;
margin-right:6px;font-size:12px}}
.cards{{display:grid;grid-template-columns:repeat(auto-fill,minmax(170px,1fr));gap:10px;
margin:16px 0}}
.card{{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 14px}}
.card b{{display:block;font-size:20px;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}}
.card span{{color:var(--muted);font-size:12px}}
.plots{{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(520px,100%),1fr));gap:12px}}
figure{{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;
padding:4px;overflow:hidden}}
figure img{{display:block;max-width:100%;margin:auto}}
figure img.small{{width:160px;image-rendering:pixelated}}
figcaption{{padding:6px 8px;font-size:12px;overflow-wrap:anywhere}}
figure svg{{display:block;width:100%;height:auto}}
.wide{{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:8px;
margin-bottom:10px}}
table{{border-collapse:collapse;width:100%}}
th,td{{text-align:left;vertical-align:top;padding:5px 14px;border-top:1px solid var(--line);
overflow-wrap:anywhere;min-width:90px}}
thead th{{border-top:0;color:var(--muted);font-weight:600;font-size:12px}}
tbody th{{font-weight:400;color:var(--muted);min-width:150px}}
.number{{font-variant-numeric:tabular-nums}}
.differs{{color:var(--warn);font-weight:600}}
.dot{{display:inline-block;width:10px;height:10px;border-radius:5px;margin-right:7px}}
details{{margin:8px 0}} summary{{cursor:pointer;color:var(--muted);margin-bottom:6px}}
footer{{margin-top:32px;color:var(--muted);font-size:12px}}
@media print{{
:root{{{_LIGHT}--bg:#ffffff;--card2:#ffffff}}
body{{max-width:none;padding:0;font-size:11px;print-color-adjust:exact;
-webkit-print-color-adjust:exact}}
.plots{{grid-template-columns:1fr 1fr}} .cards{{grid-template-columns:repeat(4,1fr)}}
figure,.card,tr{{break-inside:avoid}} h2,h3{{break-after:avoid}} .wide{{overflow:visible}}
th,td{{padding:3px 8px;min-width:0}} tbody th{{min-width:0}}
@page{{margin:14mm}}
}}
"""
