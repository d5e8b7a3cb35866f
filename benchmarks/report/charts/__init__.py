"""The plots of a report, drawn as SVG: their text can be selected and their colours follow the page's theme."""
