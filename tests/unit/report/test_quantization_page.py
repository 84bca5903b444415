"""The table of quantization figures: what it shows, and the test of pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from quantization_page import quantization_page

from edgec.report.accuracy import difference, form_lines, quantizer_lines, sign_test


def test_the_sign_test_is_what_coins_do() -> None:
    assert sign_test(0, 0) == 1.0
    assert sign_test(5, 5) == 1.0
    assert sign_test(0, 5) == pytest.approx(2 / 32)
    flips = np.random.default_rng(0).integers(0, 2, (200_000, 12)).sum(axis=1)
    uneven = np.mean((flips <= 3) | (flips >= 9))
    assert sign_test(3, 9) == sign_test(9, 3) == pytest.approx(float(uneven), abs=0.005)


def test_the_page_of_some_figures(tmp_path: Path) -> None:
    table = tmp_path / "quantization.toml"
    table.write_text(
        '[models."a"]\nsamples = 200\nruns = 200\nfloat_right = 180\n'
        "published_right = 178\nours_right = 181\n"
        "published_same = 194\nours_same = 199\nonnxruntime_same = 190\n"
        "onnxruntime_right = 177\npublished_db = 20.0\nours_db = 25.0\nonnxruntime_db = 22.0\n"
        "won_against_float = 2\nlost_against_float = 1\nwon_against_published = 5\n"
        "lost_against_published = 2\nwon_against_onnxruntime = 6\nlost_against_onnxruntime = 2\n"
        "float_log_loss = 0.2\npublished_log_loss = 0.23\nours_log_loss = 0.2104\n"
        "onnxruntime_log_loss = 0.22\n"
        "per_channel_right = 176\nper_channel_same = 192\nper_channel_db = 23.0\n"
        "won_against_per_channel = 7\nlost_against_per_channel = 2\nper_channel_log_loss = 0.21\n",
        "utf-8",
    )
    page = quantization_page(table)
    assert (
        "| a | 200 | 0.50 | 90.00 % | 89.00 % | 90.50 % | 88.50 % | 88.00 % | 20.0 | 25.0 |" in page
    )
    assert " 88.00 % | 20.0 | 25.0 | 22.0 | 23.0 |" in page
    assert "| ONNX Runtime | won 6, lost 2, p = 0.29 |" in page
    assert "| published | 3.00 % |\n| ours | 0.50 % |\n| ONNX Runtime | 5.00 % |\n" in page
    assert "| ONNX Runtime | 5.00 % |\n| per channel | 4.00 % |\n" in page
    assert "| log loss | a |" in page
    assert "| published | 0.2300 |\n| ours | 0.2104 |\n| ONNX Runtime | 0.2200 |\n" in page
    *_, row = quantizer_lines(table)
    shares = ["90.00", "%", "89.00", "%", "90.50", "%", "88.50", "%", "88.00", "%"]
    assert row.split() == ["a", "200", *shares, "0.2104", "0.2200", "0.2100"]
    assert quantizer_lines(tmp_path / "absent.toml") == []
    assert "Nothing is measured yet" in quantization_page(tmp_path / "absent.toml")


def test_equivalent_forms(tmp_path: Path) -> None:
    assert difference([91.0, 92.0, 93.0], [90.0, 92.0, 91.0]) == pytest.approx((1.0, 3**-0.5))
    forms = tmp_path / "forms.toml"
    forms.write_text(
        '[models."a"]\nruns = [200, 100]\nfloat_right = [180, 90]\n'
        "ours_right = [182, 91]\nonnxruntime_right = [180, 90]\nper_channel_right = [184, 90]\n"
        "float_log_loss = [0.2, 0.21]\nours_log_loss = [0.2, 0.22]\n"
        "onnxruntime_log_loss = [0.3, 0.22]\nper_channel_log_loss = [0.2, 0.24]\n"
        "ours_db = [30.0, 31.0]\nonnxruntime_db = [20.0, 22.0]\nper_channel_db = [25.0, 26.0]\n"
        '[models."r"]\nruns = [8, 8]\n'
        "ours_rank_correlation = [0.99, 0.98]\nonnxruntime_rank_correlation = [0.9, 0.91]\n"
        "per_channel_rank_correlation = [0.97, 0.98]\n"
        "ours_db = [40.0, 41.0]\nonnxruntime_db = [20.0, 22.0]\nper_channel_db = [35.0, 36.0]\n",
        "utf-8",
    )
    page = quantization_page(tmp_path / "absent.toml", forms)
    assert (
        "| a | 2 | 300 | 90.00 % | 91.00 % | 90.00 % | 91.00 % | +1.00 ± 0.00 | +0.00 ± 1.00 |"
        in page
    )
    assert "| a | 0.2050 | 0.2100 | 0.2600 | 0.2200 | 30.5 | 21.0 | 25.5 |" in page
    *_, row = form_lines(forms)
    shares = ["90.00", "%", "91.00", "%", "90.00", "%", "91.00", "%"]
    assert row.split() == ["a", "2", *shares, "+1.00", "±", "0.00", "+0.00", "±", "1.00"]
    assert form_lines(tmp_path / "absent.toml") == []
    assert "| r | 2 | 0.9850 | 0.9050 | 0.9750 | 40.5 | 21.0 | 35.5 |" in page


def test_agreement_with_float(tmp_path: Path) -> None:
    agreement = tmp_path / "agreement.toml"
    agreement.write_text(
        '[models."f"]\ncalibration = 4\nsamples = 8\nscores_db = 30.0\nboxes_db = 31.0\n'
        "faces = 5\nfaces_found = 4\nfaces_more = 1\nmean_overlap = 0.9\n"
        '[models."d"]\ncalibration = 9\nsamples = 6\nwaveform_db = 12.3\n'
        '[models."t"]\ncalibration = 4\nsamples = 8\ntexts = 8\ntexts_same = 7\n'
        "characters = 40\ncharacters_off = 2\nprobabilities_db = 21.55\n"
        '[models."v"]\ncalibration = 4\nsamples = 8\ndecisions_same = 7\n'
        "probabilities_db = 20.0\n",
        "utf-8",
    )
    page = quantization_page(tmp_path / "absent.toml", agreement=agreement)
    assert "| f | 4 | 8 | 4 of 5 faces, 1 more, mean overlap 0.900; scores 30.0 dB" in page
    assert "| d | 9 | 6 | waveform 12.3 dB |" in page
    assert "| t | 4 | 8 | 87.5 % same texts; 2 of 40 characters off; prob" in page
    assert "| v | 4 | 8 | 87.5 % same decisions; probabilities 20.0 dB |" in page
